// Which tools of MCP servers a model sees in one response, under which names, and where a call by
// such a name goes.
//
// Invariant: a name depends only on the server's label and the tool's name, so that calls in the
// conversation keep their names in later requests. Two tools never share a name.

import Codec

/// The MCP tools of one response.
struct ToolRoutes {
    /// Where a call goes.
    struct Route {
        /// The `mcp_list_tools` item that named the connection.
        let connection: String
        let serverLabel: String
        /// The tool's name at its server.
        let name: String
        /// Whether the client must be asked first.
        let needsApproval: Bool
        /// Whether the client allows the tool.
        let isAllowed: Bool
    }

    /// The separator of label and tool.
    private static let separator = "__"
    /// The longest name of a function that all services take.
    private static let maxNameBytes = 64

    /// The tools as functions, in the order of their servers.
    private(set) var functions: [FunctionTool] = []
    private var routes: [String: Route] = [:]
    /// Beginnings of names that belong to a server.
    private var prefixes: [(prefix: String, connection: String, label: String)] = []

    /// Adds the tools of a server that a client allows.
    /// - Parameters:
    ///   - taken: functions of the client, whose names win.
    ///   - canAsk: whether the client can be asked. Otherwise tools that need approval are not
    ///     offered.
    mutating func add(
        _ tools: [MCPToolDescription], of server: MCPTool, connection: String,
        besides taken: [FunctionTool], canAsk: Bool
    ) {
        prefixes.append((server.serverLabel + Self.separator, connection, server.serverLabel))
        for tool in tools where server.allowedTools?.matches(tool) != false {
            let name = Self.functionName(of: tool.name, at: server.serverLabel)
            let needsApproval = (server.requireApproval ?? .always).isNeeded(for: tool)
            guard canAsk || !needsApproval, routes[name] == nil,
                !taken.contains(where: { $0.name == name })
            else { continue }
            routes[name] = Route(
                connection: connection, serverLabel: server.serverLabel, name: tool.name,
                needsApproval: needsApproval, isAllowed: true)
            functions.append(
                FunctionTool(
                    name: name, description: Self.description(of: tool, at: server),
                    parameters: tool.inputSchema))
        }
    }

    /// Where a call by a name goes, or nil where the function is the client's. A name that has the
    /// form of a server's tool, but is none of its allowed tools, has a route whose calls are
    /// refused.
    func route(of functionName: String) -> Route? {
        if let route = routes[functionName] { return route }
        guard let server = prefixes.first(where: { functionName.hasPrefix($0.prefix) }) else {
            return nil
        }
        return Route(
            connection: server.connection, serverLabel: server.label,
            name: String(functionName.dropFirst(server.prefix.count)), needsApproval: false,
            isAllowed: false)
    }

    /// The functions of one server.
    private func functions(of label: String) -> [FunctionTool] {
        functions.filter { routes[$0.name]?.serverLabel == label }
    }

    /// Adds the tools to a request to a model.
    /// - Parameter choice: the tool or the server that the client has chosen, if it has chosen one.
    func offer(to request: inout ModelRequest, choice: MCPToolChoice?) {
        request.tools += functions
        guard let choice else { return }
        if let name = choice.name {
            let function = Self.functionName(of: name, at: choice.serverLabel)
            guard request.tools.contains(where: { $0.name == function }) else { return }
            request.toolChoice = .function(name: function)
        } else {
            let functions = functions(of: choice.serverLabel)
            guard !functions.isEmpty else { return }
            request.tools = functions
            request.toolChoice = .required
        }
    }

    /// The name of a tool for the model: `label__tool`. If that is too long, or has characters that
    /// services do not take in a function's name, it ends in a hash of the whole.
    static func functionName(of tool: String, at label: String) -> String {
        let plain = "\(label)\(separator)\(tool)"
        if plain.utf8.count <= maxNameBytes, tool.utf8.allSatisfy(isNameByte) { return plain }
        // FNV-1a, 32 bits: the same in every process, unlike Swift's own hashes.
        var hash: UInt32 = 2_166_136_261
        for byte in tool.utf8 { hash = (hash ^ UInt32(byte)) &* 16_777_619 }
        let suffix = "_" + String(hash, radix: 16)
        let clean = plain.utf8.map { isNameByte($0) ? $0 : UInt8(ascii: "_") }
        return String(decoding: clean.prefix(maxNameBytes - suffix.utf8.count), as: UTF8.self)
            + suffix
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
            || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private static func description(of tool: MCPToolDescription, at server: MCPTool) -> String? {
        guard let about = server.serverDescription, !about.isEmpty else { return tool.description }
        guard let description = tool.description else { return about }
        return "\(description)\n\n\(about)"
    }
}

extension MCPItem {
    /// The outcome of a call that the user has not decided on.
    static let awaitsApproval = "In progress: the user has not approved this call yet."
    /// The outcome of a call that runs.
    static let isRunning = "In progress: this call has not returned yet. Its result will follow."

    /// The known outcome of a call, as a model is shown it. Nil means that none is known.
    private static func outcome(of call: MCPCall) -> String? {
        call.output ?? call.error.map { "Error: \($0.message)" }
    }

    private static func denial(_ reason: String?) -> String {
        let outcome = "Error: The user did not approve this call."
        return reason.map { "\(outcome) Reason: \($0)" } ?? outcome
    }

    /// Records the item's outcome of a call that needs approval, by the id of the question.
    func note(id: String, in outcomes: inout [String: String]) {
        switch self {
        case .approvalRequest: outcomes[id] = Self.awaitsApproval
        case .approvalResponse(let requestID, let isApproved, let reason):
            guard outcomes[requestID] != nil else { return }
            outcomes[requestID] = isApproved ? Self.isRunning : Self.denial(reason)
        case .call(let call):
            guard let requestID = call.approvalRequestID, outcomes[requestID] != nil,
                let outcome = Self.outcome(of: call)
            else { return }
            outcomes[requestID] = outcome
        case .listTools: break
        }
    }

    /// The item as a model is shown it: a call with its outcome. A call that needs approval stands
    /// where the question stands, whatever its outcome, so that the model sees it once, and the
    /// number of messages stays the same.
    /// - Parameters:
    ///   - outcomes: of the calls whose question is shown, by the question's id.
    ///   - request: finds the item of a question that is not shown.
    func modelMessages(
        id: String, outcomes: [String: String], request: (_ id: String) -> ConversationItem?
    ) -> [ModelMessage] {
        switch self {
        case .listTools, .approvalResponse(_, isApproved: true, _): return []
        case .approvalRequest(let label, let name, let arguments):
            guard let outcome = outcomes[id] else { return [] }
            return Self.messages(id, label, name, arguments, outcome: outcome)
        case .call(let call):
            let isShown = call.approvalRequestID.map { outcomes[$0] != nil } ?? false
            guard !isShown, let outcome = Self.outcome(of: call) else { return [] }
            return Self.messages(
                id, call.serverLabel, call.name, call.arguments, outcome: outcome)
        case .approvalResponse(let requestID, isApproved: false, let reason):
            guard outcomes[requestID] == nil,
                case .mcp(.approvalRequest(let label, let name, let arguments)) =
                    request(requestID)?.kind
            else { return [] }
            return Self.messages(
                requestID, label, name, arguments, outcome: Self.denial(reason))
        }
    }

    private static func messages(
        _ id: String, _ label: String, _ name: String, _ arguments: String, outcome: String
    ) -> [ModelMessage] {
        [
            .functionCall(
                callID: id, name: ToolRoutes.functionName(of: name, at: label),
                arguments: arguments.isEmpty ? "{}" : arguments),
            .functionOutput(callID: id, output: outcome),
        ]
    }
}
