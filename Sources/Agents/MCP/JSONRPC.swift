// JSON-RPC 2.0 as the Model Context Protocol uses it: the messages that we write and those that a
// server sends. MCPClient knows the methods; the transports carry the messages. MCPVersion adds
// what each revision of the protocol wants in a request.
//
// Source: JSON-RPC 2.0; MCP 2025-06-18 and 2026-07-28, "Base protocol".

import Codec
import Session

/// The error that a server answers a request with.
struct JSONRPCFailure: Error, Equatable {
    /// Codes of JSON-RPC, and those that MCP 2026-07-28 adds.
    enum Code {
        static let invalidRequest = -32_600
        static let methodNotFound = -32_601
        static let invalidParams = -32_602
        /// The header fields of a request do not match its body.
        static let headerMismatch = -32_020
        /// The request does not announce a capability that the server needs.
        static let missingCapability = -32_021
        /// The server does not speak the request's version.
        static let unsupportedVersion = -32_022
    }

    /// Most versions that are read of an error. 32: five exist.
    private static let maxVersions = 32

    var code: Int
    var message: String
    /// The versions that the server speaks (`data.supported`); empty where it names none.
    var supportedVersions: [String] = []

    /// The same for the item of a call.
    var callError: MCPCallError { .protocol(code: code, message: message) }

    init(code: Int, message: String, supportedVersions: [String] = []) {
        self.code = code
        self.message = message
        self.supportedVersions = supportedVersions
    }

    fileprivate init(_ error: JSONValue) {
        self.init(
            code: error["code"]?.int ?? 0,
            message: error["message"]?.string ?? "The MCP server gave no reason.")
        guard let versions = error["data"]?["supported"]?.elements else { return }
        supportedVersions = versions.prefix(Self.maxVersions).compactMap(\.string)
    }
}

/// A message from a server.
enum JSONRPCMessage: Equatable {
    /// The answer to a request of ours. The id is nil when the server could not read the request's
    /// id.
    case response(id: String?, Result<RawJSON, JSONRPCFailure>)
    /// A request of the server, which needs an answer. The id is kept as the server wrote it.
    case request(id: RawJSON, method: String)
    case notification(method: String)

    /// Reads the messages of a document: one message, or an array, which protocol versions before
    /// 2025-06-18 allow.
    /// - Throws: `AgentError.malformedReply` where the document is not JSON-RPC.
    static func all(in bytes: [UInt8]) throws -> [JSONRPCMessage] {
        let root: JSONValue
        do throws(JSONError) {
            root = try JSONParser(limits: .ofAnAnswer).parse(bytes)
        } catch {
            throw malformed("not JSON: \(error.explanation)")
        }
        guard let elements = root.elements else { return [try JSONRPCMessage(root)] }
        return try elements.map { try JSONRPCMessage($0) }
    }

    private init(_ value: JSONValue) throws {
        guard value.kind == .object, value["jsonrpc"]?.isString("2.0") == true else {
            throw Self.malformed("not JSON-RPC 2.0")
        }
        let id = value["id"]
        if let method = value["method"]?.string {
            if let id, !id.isNull {
                self = .request(id: id.raw, method: method)
            } else {
                self = .notification(method: method)
            }
            return
        }
        // The ids of our requests are strings, so an answer with a number as its id matches none.
        let name = id?.string
        if let error = value["error"], error.kind == .object {
            self = .response(id: name, .failure(JSONRPCFailure(error)))
        } else if let result = value["result"], result.kind == .object {
            self = .response(id: name, .success(result.raw))
        } else {
            throw Self.malformed("no method and no result")
        }
    }

    static func malformed(_ detail: String) -> AgentError {
        .malformedReply(
            message: "The MCP server's answer cannot be understood.", detail: detail)
    }
}

/// A request or notification that we send.
struct JSONRPCRequest {
    /// A member of `params`.
    struct Parameter {
        var name: StaticString
        var value: RawJSON

        init(_ name: StaticString, _ value: RawJSON) {
            self.name = name
            self.value = value
        }

        init(_ name: StaticString, _ text: String) {
            self.init(
                name, RawJSON(String(decoding: encodedJSON { $0.string(text) }, as: UTF8.self)))
        }
    }

    /// Names the request in the server's answer. Nil for a notification, which has no answer.
    var id: String?
    var method: String
    var parameters: [Parameter] = []
    /// The tool that is called. Stateless revisions repeat it in a header field.
    var toolName: String?
    /// Header fields with arguments, for stateless revisions over HTTP.
    var fields: [(name: String, value: String)] = []

    /// The message as JSON, on one line: the stdio transport ends a message at a line break.
    /// - Parameter version: the stateless revision of a request. Nil stands for the earlier
    ///   revisions.
    func encoded(for version: String? = nil) -> [UInt8] {
        var parameters = parameters
        if let version, id != nil {
            parameters.append(Parameter("_meta", MCPVersion.envelope(of: version)))
        }
        return encodedObject { json in
            json.member("jsonrpc", "2.0")
            if let id { json.member("id", id) }
            json.member("method", method)
            guard !parameters.isEmpty else { return }
            json.object("params") { json in
                for parameter in parameters {
                    json.member(parameter.name, parameter.value.onOneLine)
                }
            }
        }
    }

    /// Our answer to a request of a server: an empty result for `ping`, and "method not found" for
    /// everything else, since the handshake announces no capability.
    static func answer(to id: RawJSON, method: String) -> [UInt8] {
        encodedObject { json in
            json.member("jsonrpc", "2.0")
            json.member("id", id.onOneLine)
            if method == "ping" {
                json.object("result") { _ in }
            } else {
                json.object("error") { json in
                    json.member("code", JSONRPCFailure.Code.methodNotFound)
                    json.member("message", "Method not found")
                }
            }
        }
    }
}
