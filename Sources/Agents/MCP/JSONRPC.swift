// JSON-RPC 2.0 as the Model Context Protocol uses it: the messages that we write and those that a
// server sends. MCPClient knows the methods; the transports carry the messages.
//
// Source: JSON-RPC 2.0; MCP 2025-06-18, "Base protocol".

import Codec
import Session

/// A message from a server.
enum JSONRPCMessage: Equatable {
    /// The answer to a request of ours. The id is nil when the server could not read the request's
    /// id.
    case response(id: String?, Result<RawJSON, MCPCallError>)
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
            self = .response(
                id: name,
                .failure(
                    .protocol(
                        code: error["code"]?.int ?? 0,
                        message: error["message"]?.string ?? "The MCP server gave no reason.")))
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
    /// Names the request in the server's answer. Nil for a notification, which has no answer.
    var id: String?
    var method: String
    /// A JSON object, or nil.
    var params: RawJSON?

    /// The message as JSON, on one line.
    var encoded: [UInt8] {
        encodedObject { json in
            json.member("jsonrpc", "2.0")
            if let id { json.member("id", id) }
            json.member("method", method)
            // The stdio transport ends a message at a line break.
            if let params { json.member("params", params.onOneLine) }
        }
    }

    /// Our answer to a request of a server: an empty result for `ping`, and "method not found" for
    /// everything else, since we have announced no capability.
    static func answer(to id: RawJSON, method: String) -> [UInt8] {
        encodedObject { json in
            json.member("jsonrpc", "2.0")
            json.member("id", id.onOneLine)
            if method == "ping" {
                json.object("result") { _ in }
            } else {
                json.object("error") { json in
                    json.member("code", -32_601)
                    json.member("message", "Method not found")
                }
            }
        }
    }
}
