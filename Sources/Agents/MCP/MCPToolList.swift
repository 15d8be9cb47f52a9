// The tools of one server as its `tools/list` describes them, and the facts of each that a call
// needs. MCPClient fetches the pages; MCPServerMemory keeps a list for as long as its server
// allows.

import Codec
import Session

/// The tools of a server.
struct MCPToolList: Equatable, Sendable {
    /// Most tools that are taken from a server; sessions show fewer to the model.
    private static let maxTools = 1_024
    /// Most UTF-8 bytes of all tools of a list; the tools beyond are left out. 512 KiB: half of the
    /// limit of a conversation.
    private static let maxBytes = 512 << 10

    private(set) var tools: [MCPToolDescription] = []
    /// The arguments that are repeated in header fields, by the tool's name.
    private(set) var headers: [String: [MCPParameterHeader]] = [:]
    /// The tools that have an argument of their own with the name of the user's answers.
    private(set) var ownAnswers: Set<String> = []
    /// How long the list may be kept: the shortest time of its pages.
    private(set) var lifetime: Duration?
    /// UTF-8 bytes of the tools' texts.
    private(set) var textBytes = 0
    /// Whether more tools would exceed a limit.
    private(set) var isFull = false

    /// Adds the tools of one page.
    /// - Parameters:
    ///   - page: the result of `tools/list`.
    ///   - isStateless: whether the server speaks a stateless revision, whose results have a time
    ///     for which they may be kept, and whose schemas may mark arguments.
    /// - Returns: the cursor of the next page, or nil.
    /// - Throws: `AgentError.malformedReply` where the page has no list.
    mutating func add(page: JSONValue, isStateless: Bool) throws -> String? {
        guard let elements = page["tools"]?.elements else {
            throw JSONRPCMessage.malformed("the list has no member 'tools'")
        }
        let milliseconds = isStateless ? page["ttlMs"]?.int ?? 0 : 0
        let most = MCPServerMemory.maxListLifetime
        let kept = min(most, .milliseconds(min(max(milliseconds, 0), 86_400_000)))
        lifetime = min(lifetime ?? kept, kept)
        for element in elements where !isFull { add(element, isStateless: isStateless) }
        return isFull ? nil : page["nextCursor"]?.string
    }

    private mutating func add(_ element: JSONValue, isStateless: Bool) {
        guard let tool = MCPToolDescription(listed: element) else { return }
        let schema = element["inputSchema"]
        var marked: [MCPParameterHeader] = []
        if isStateless, let schema {
            // A tool with invalid marks must not be called (MCP 2026-07-28, "Custom headers").
            guard let all = try? MCPParameterHeader.all(in: schema) else { return }
            marked = all
        }
        guard textBytes + tool.textBytes <= Self.maxBytes, tools.count < Self.maxTools else {
            isFull = true
            return
        }
        textBytes += tool.textBytes
        tools.append(tool)
        if !marked.isEmpty { headers[tool.name] = marked }
        if schema?["properties"]?.member(named: MCPAnswers.argument) != nil {
            ownAnswers.insert(tool.name)
        }
    }
}

extension MCPToolDescription {
    /// Reads a tool of a server's list; nil when it has no name. A tool whose schema is missing,
    /// `null` or no object counts as one without arguments: if it were left out, the user would
    /// miss it without any error.
    fileprivate init?(listed value: JSONValue) {
        guard let name = value["name"]?.string, !name.isEmpty else { return nil }
        let schema = value["inputSchema"].flatMap { $0.kind == .object ? $0.raw : nil }
        let annotations = value["annotations"].flatMap { $0.kind == .object ? $0 : nil }
        self.init(
            name: name, description: value["description"]?.string,
            inputSchema: schema ?? RawJSON(#"{"type":"object"}"#),
            annotations: annotations?.raw, isReadOnly: annotations?["readOnlyHint"]?.bool ?? false)
    }
}
