// One session's client of an MCP server: it lists and calls tools over any transport, and limits
// the size of the answers. The transports do the handshake and replace lost sessions.
//
// Source: MCP 2025-06-18, "Lifecycle", "Tools", "Cancellation".

import Codec
import Session

/// Time limits of requests to MCP servers.
public struct MCPTimeouts: Equatable, Sendable {
    /// For connecting and for each page of a list of tools. 10 s: the session's first reply waits
    /// for it.
    public var list = Duration.seconds(10)
    /// For a call. 60 s, as in the protocol's reference clients.
    public var call = Duration.seconds(60)

    /// Creates the default limits.
    public init() {}
}

/// Carries messages to one MCP server. It does the handshake before the first message.
protocol MCPTransport: Sendable {
    /// Sends a request and returns its result.
    /// - Throws: `MCPCallError`, `AgentError`, `CancellationError`.
    func request(
        _ request: JSONRPCRequest, within limit: Duration, on host: any AgentHost
    ) async throws -> RawJSON

    /// Sends a notification. Before a handshake, an implementation may drop it.
    func notify(_ notification: JSONRPCRequest, on host: any AgentHost) async throws

    /// Ends the session with the server. Best effort.
    func close(on host: any AgentHost) async
}

/// The handshake of the protocol, and the versions that we understand.
enum MCPVersion {
    static let asked = "2025-06-18"
    private static let known: Set<String> = [
        asked, "2025-11-25", "2025-03-26", "2024-11-05",
    ]

    /// The first message to a server.
    static func initialize(id: String) -> JSONRPCRequest {
        let params = RawJSON.object { json in
            json.member("protocolVersion", asked)
            json.object("capabilities") { _ in }
            json.object("clientInfo") { json in
                json.member("name", "parley")
                json.member("version", "1")
            }
        }
        return JSONRPCRequest(id: id, method: "initialize", params: params)
    }

    /// The notification that completes the handshake.
    static let initialized = JSONRPCRequest(method: "notifications/initialized")

    /// The version that a server has chosen in its answer to `initialize`.
    static func chosen(in result: RawJSON) throws -> String {
        let version = try JSONParser().parse(result.text)["protocolVersion"]?.string
        guard let version, known.contains(version) else {
            throw JSONRPCMessage.malformed("protocol version \(version ?? "missing")")
        }
        return version
    }
}

/// A connection to one MCP server. `close` ends the transport's session with it.
struct MCPClient: ToolServerConnection {
    /// Most pages of one list of tools. 64: a server that repeats a cursor must not make us loop.
    private static let maxPages = 64
    /// Most tools that are taken from a server; sessions show fewer to the model.
    private static let maxTools = 1_024
    /// Most UTF-8 bytes of all tools of a list; the tools beyond are left out. 512 KiB: half of the
    /// limit of a conversation.
    private static let maxListBytes = 512 << 10

    let transport: any MCPTransport
    let timeouts: MCPTimeouts

    func listTools(on host: any AgentHost) async throws -> [MCPToolDescription] {
        var tools: [MCPToolDescription] = []
        var cursor: String?
        var bytes = 0
        for page in 1...Self.maxPages {
            let result = try await transport.request(
                JSONRPCRequest(
                    id: "list-\(page)", method: "tools/list",
                    params: cursor.map { cursor in .object { $0.member("cursor", cursor) } }),
                within: timeouts.list, on: host)
            let list = try JSONParser().parse(result.text)
            guard let elements = list["tools"]?.elements else {
                throw JSONRPCMessage.malformed("the list has no member 'tools'")
            }
            for tool in elements.compactMap({ MCPToolDescription(listed: $0) }) {
                bytes += tool.textBytes
                guard bytes <= Self.maxListBytes, tools.count < Self.maxTools else { return tools }
                tools.append(tool)
            }
            cursor = list["nextCursor"]?.string
            if cursor == nil { break }
        }
        return tools
    }

    func call(
        _ name: String, arguments: String, id: String, on host: any AgentHost
    ) async throws -> String {
        let params = RawJSON.object { json in
            json.member("name", name)
            json.member("arguments", RawJSON(arguments))
        }
        let result = try await transport.request(
            JSONRPCRequest(id: id, method: "tools/call", params: params), within: timeouts.call,
            on: host)
        let answer = try JSONParser().parse(result.text)
        let text = Self.text(of: answer)
        if answer["isError"]?.bool == true {
            throw MCPCallError.execution(message: text.isEmpty ? "The tool failed." : text)
        }
        return text
    }

    func cancelCall(id: String, on host: any AgentHost) async {
        try? await transport.notify(
            JSONRPCRequest(
                method: "notifications/cancelled", params: .object { $0.member("requestId", id) }),
            on: host)
    }

    func close(on host: any AgentHost) async { await transport.close(on: host) }

    /// A tool's answer as text: its text parts, one per line. Other parts are named by their kind.
    /// An answer with structured content only is returned as its JSON.
    private static func text(of answer: JSONValue) -> String {
        var texts: [String] = []
        if let elements = answer["content"]?.elements {
            for part in elements { texts.append(text(ofPart: part)) }
        }
        if texts.isEmpty, let structured = answer["structuredContent"], !structured.isNull {
            return structured.raw.text
        }
        return texts.joined(separator: "\n")
    }

    private static func text(ofPart part: JSONValue) -> String {
        let type = part["type"]?.string ?? "content"
        switch type {
        case "text": return part["text"]?.string ?? ""
        case "resource":
            if let text = part["resource"]?["text"]?.string { return text }
            return "[resource \(part["resource"]?["uri"]?.string ?? "")]"
        case "resource_link": return "[resource \(part["uri"]?.string ?? "")]"
        default: return "[\(type) \(part["mimeType"]?.string ?? "")]"
        }
    }
}

extension MCPToolDescription {
    /// Reads a tool of a server's list; nil when it has no name or no schema.
    fileprivate init?(listed value: JSONValue) {
        guard let name = value["name"]?.string, !name.isEmpty,
            let schema = value["inputSchema"], schema.kind == .object
        else { return nil }
        let annotations = value["annotations"].flatMap { $0.kind == .object ? $0 : nil }
        self.init(
            name: name, description: value["description"]?.string, inputSchema: schema.raw,
            annotations: annotations?.raw, isReadOnly: annotations?["readOnlyHint"]?.bool ?? false)
    }
}
