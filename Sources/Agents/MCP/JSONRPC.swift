// JSON-RPC 2.0 as the Model Context Protocol uses it: messages that we write, and what a message of
// a server is. What methods mean is MCPClient's; how messages travel is the transports'.
//
// Source: JSON-RPC 2.0; MCP 2025-06-18, "Base protocol".

import Codec
import Session

/// What a server has sent.
enum JSONRPCMessage: Equatable {
    /// The answer to a request of ours; the id is nil where the server could not read it.
    case response(id: String?, Result<RawJSON, MCPCallError>)
    /// A request of the server, which wants an answer; its id as it was written.
    case request(id: RawJSON, method: String)
    case notification(method: String)

    private static let limits: JSONLimits = {
        var limits = JSONLimits()
        limits.retainedDocumentBytes = 4 << 10
        return limits
    }()

    /// Reads the messages of a document: one, or an array of them, which protocol versions before
    /// 2025-06-18 allow.
    /// - Throws: `AgentError.malformedReply` where it is no JSON-RPC.
    static func all(in bytes: UnsafeRawBufferPointer) throws -> [JSONRPCMessage] {
        let root: JSONValue
        do throws(JSONError) {
            root = try JSONParser(limits: limits).parse(bytes)
        } catch {
            throw malformed("no JSON: \(error.explanation)")
        }
        guard let elements = root.elements else { return [try JSONRPCMessage(root)] }
        return try elements.map { try JSONRPCMessage($0) }
    }

    /// Reads the messages of a document.
    static func all(in bytes: [UInt8]) throws -> [JSONRPCMessage] {
        try bytes.withUnsafeBytes { try all(in: $0) }
    }

    private init(_ value: JSONValue) throws {
        guard value.kind == .object, value["jsonrpc"]?.isString("2.0") == true else {
            throw Self.malformed("no JSON-RPC 2.0")
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
        // We name requests by texts; a server that answers with a number answers nobody.
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
            throw Self.malformed("neither a method nor a result")
        }
    }

    static func malformed(_ detail: String) -> AgentError {
        .malformedReply(
            message: "The MCP server's answer cannot be understood.", detail: detail)
    }
}

/// A message of ours.
struct JSONRPCRequest {
    /// What the server answers by; nil: a notification, which has no answer.
    var id: String?
    var method: String
    /// A JSON object, or nil.
    var params: RawJSON?

    /// The message as JSON, on one line.
    var encoded: [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.beginObject()
        json.member("jsonrpc", "2.0")
        if let id { json.member("id", id) }
        json.member("method", method)
        // A line break would end the message for a program, and begin another.
        if let params { json.member("params", params.onOneLine) }
        json.endObject()
        return json.finish().copiedBytes
    }

    /// The answer to a request of a server: an empty result for `ping`, which asks whether we live,
    /// and "method not found" for everything else, since we have announced no capability.
    static func answer(to id: RawJSON, method: String) -> [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 128))
        json.beginObject()
        json.member("jsonrpc", "2.0")
        json.member("id", id.onOneLine)
        if method == "ping" {
            json.member("result", RawJSON("{}"))
        } else {
            json.key("error")
            json.beginObject()
            json.member("code", -32_601)
            json.member("message", "Method not found")
            json.endObject()
        }
        json.endObject()
        return json.finish().copiedBytes
    }
}
