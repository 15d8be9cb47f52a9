// One session's client of an MCP server: it lists and calls tools over any transport, answers the
// questions of tools, and limits the size of the answers. The transports find out which revision of
// the protocol a server speaks, and replace lost sessions.
//
// Source: MCP 2025-06-18 and 2026-07-28, "Tools", "Cancellation".

import Codec
import Session
import Synchronization

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

/// The result of a request.
struct MCPReply: Sendable {
    var result: RawJSON
    /// Whether the server has answered in a stateless revision.
    var isStateless: Bool
}

/// Carries messages to one MCP server. Before the first message it finds out which revision the
/// server speaks.
protocol MCPTransport: Sendable {
    /// Sends a request and returns its result.
    /// - Throws: `MCPRefusal`, `MCPCallError`, `AgentError`, `CancellationError`.
    func request(
        _ request: JSONRPCRequest, within limit: Duration, on host: any AgentHost
    ) async throws -> MCPReply

    /// Cancels a request at the server, where the end of the request's task does not do so. Best
    /// effort.
    func cancel(id: String, on host: any AgentHost) async

    /// Ends the session with the server. Best effort.
    func close(on host: any AgentHost) async
}

/// A connection to one MCP server. `close` ends the transport's session with it.
final class MCPClient: ToolServerConnection {
    /// Most pages of one list of tools. 64: a server that repeats a cursor must not make us loop.
    private static let maxPages = 64
    /// Most times that a tool may ask for input in one call. 10, as in the reference clients.
    private static let maxInputRounds = 10
    /// The pause before a tool is asked again that wants no input but time: it doubles each time.
    private static let firstPause = Duration.milliseconds(50)
    private static let longestPause = Duration.milliseconds(250)

    private struct State {
        /// The list of tools as this session has got it.
        var list = MCPToolList()
        /// The further requests of calls that have asked for input, by the call's id.
        var rounds: [String: Int] = [:]
    }

    /// Bytes of the functions that wait for an answer.
    private static let taskBytes = 4_000

    private let transport: any MCPTransport
    /// The server's place in the process's memory, or nil where lists are not kept.
    private let record: MCPServerRecord?
    private let timeouts: MCPTimeouts
    /// The operator's name for the server; empty: a client has named its URL, and its failures are
    /// not the operator's.
    private let label: String
    /// Its URL, or its command.
    private let address: String
    private let state = Mutex(State())

    init(
        transport: any MCPTransport, record: MCPServerRecord? = nil, timeouts: MCPTimeouts,
        label: String = "", address: String = ""
    ) {
        self.label = label
        self.address = address
        self.transport = transport
        self.record = record
        self.timeouts = timeouts
    }

    // MARK: Lists

    func listTools(on host: any AgentHost) async throws -> [MCPToolDescription] {
        if let record, let kept = record.list(at: await host.now()) {
            state.withLock { $0.list = kept }
            return kept.tools
        }
        host.charge(Self.taskBytes)
        defer { host.charge(-Self.taskBytes) }
        return try await reporting(on: host) { try await fetchList(on: host).tools }
    }

    // MARK: Failures

    /// Does something with the server, and reports its failure.
    private func reporting<Value>(
        on host: any AgentHost, _ work: () async throws -> Value
    ) async throws -> Value {
        do {
            return try await work()
        } catch {
            if !label.isEmpty, !Task.isCancelled, let fault = fault(of: error) {
                host.report(fault)
            }
            throw (error as? MCPRefusal)?.callError ?? error
        }
    }

    /// The failure of the MCP server that an error shows, or nil where the error is a tool's own,
    /// or this server's.
    private func fault(of error: any Error) -> ServiceFault? {
        let service = "mcp/" + label
        switch error {
        case let refusal as MCPRefusal:
            return ServiceFault(
                of: service, refusal.evidence ?? ServiceEvidence(url: address),
                reason: refusal.failure?.message ?? "status \(refusal.status)")
        case MCPCallError.protocol(_, let message), MCPCallError.http(_, let message):
            return ServiceFault(of: service, ServiceEvidence(url: address), reason: message)
        default: return ServiceFault(error, of: service, ServiceEvidence(url: address))
        }
    }

    @discardableResult
    private func fetchList(on host: any AgentHost) async throws -> MCPToolList {
        var list = MCPToolList()
        var cursor: String?
        for page in 1...Self.maxPages {
            let reply = try await transport.request(
                JSONRPCRequest(
                    id: "list-\(page)", method: "tools/list",
                    parameters: cursor.map { [.init("cursor", $0)] } ?? []),
                within: timeouts.list, on: host)
            cursor = try list.add(
                page: Self.parse(reply.result), isStateless: reply.isStateless)
            if cursor == nil { break }
        }
        record?.remember(list, at: await host.now())
        let fetched = list
        state.withLock { $0.list = fetched }
        return fetched
    }

    // MARK: Calls

    func call(
        _ name: String, arguments: String, id: String, on host: any AgentHost
    ) async throws -> String {
        let ownsAnswers = state.withLock { $0.list.ownAnswers.contains(name) }
        let arguments = try MCPArguments(arguments, ownsAnswers: ownsAnswers)
        host.charge(Self.taskBytes)
        defer {
            host.charge(-Self.taskBytes)
            state.withLock { $0.rounds[id] = nil }
        }
        return try await reporting(on: host) {
            do {
                return try await call(name, arguments, id: id, on: host)
            } catch  where Self.isHeaderMismatch(error) {
                // The tool's schema has changed since it was listed. A server refuses such a
                // request before the call.
                try await fetchList(on: host)
                return try await call(name, arguments, id: id, on: host)
            }
        }
    }

    private static func isHeaderMismatch(_ error: any Error) -> Bool {
        if let refusal = error as? MCPRefusal {
            return refusal.failure?.code == JSONRPCFailure.Code.headerMismatch
        }
        guard case MCPCallError.protocol(JSONRPCFailure.Code.headerMismatch, _) = error else {
            return false
        }
        return true
    }

    /// Calls a tool, and answers its questions until there is a result.
    private func call(
        _ name: String, _ arguments: MCPArguments, id: String, on host: any AgentHost
    ) async throws -> String {
        let headers = state.withLock { $0.list.headers[name] ?? [] }
        var request = JSONRPCRequest(
            id: id, method: "tools/call",
            parameters: [.init("name", name), .init("arguments", arguments.json)], toolName: name,
            fields: try MCPParameterHeader.fields(headers, of: arguments.json))
        let plain = request.parameters
        let start = await host.now()
        var asked: Set<MCPQuestion> = []
        var pause = Self.firstPause
        for round in 0...Self.maxInputRounds {
            let left = timeouts.call - (await host.now() - start)
            guard left > .zero else { throw MCPCallError.tookTooLong }
            let reply = try await transport.request(request, within: left, on: host)
            guard let input = try Self.inputRequest(in: reply.result) else {
                return try Self.output(of: reply.result)
            }
            // Each request has an id of its own.
            request.id = Self.id(id, round: round + 1)
            state.withLock { $0.rounds[id] = round + 1 }
            request.parameters = plain
            if let state = input.state { request.parameters.append(.init("requestState", state)) }
            guard input.questions.isEmpty else {
                request.parameters.append(
                    .init(
                        "inputResponses",
                        try input.responses(from: arguments.answers, asked: &asked)))
                continue
            }
            try await host.sleep(for: pause)
            pause = min(pause * 2, Self.longestPause)
        }
        throw MCPCallError.execution(message: "The tool asks for more input again and again.")
    }

    private static func id(_ id: String, round: Int) -> String {
        round == 0 ? id : "\(id).\(round)"
    }

    func cancelCall(id: String, on host: any AgentHost) async {
        let round = state.withLock { $0.rounds[id] ?? 0 }
        await transport.cancel(id: Self.id(id, round: round), on: host)
    }

    func close(on host: any AgentHost) async { await transport.close(on: host) }

    // MARK: Results

    /// The transports have read the result as JSON already, so it has at most their limits.
    private static func parse(_ result: RawJSON) throws -> JSONValue {
        do throws(JSONError) {
            return try JSONParser(limits: .ofAnAnswer).parse(result.text)
        } catch {
            throw JSONRPCMessage.malformed("not JSON: \(error.explanation)")
        }
    }

    /// The input that a result asks for. Nil means that it is complete. A result without a type is
    /// complete too: the earlier revisions have none.
    private static func inputRequest(in result: RawJSON) throws -> MCPInputRequest? {
        let answer = try parse(result)
        guard let type = answer["resultType"], !type.isNull, !type.isString("complete") else {
            return nil
        }
        guard type.isString("input_required") else {
            throw JSONRPCMessage.malformed("a result of an unknown type")
        }
        return try MCPInputRequest(answer)
    }

    private static func output(of result: RawJSON) throws -> String {
        let answer = try parse(result)
        let text = text(of: answer)
        if answer["isError"]?.bool == true {
            throw MCPCallError.execution(message: text.isEmpty ? "The tool failed." : text)
        }
        return text
    }

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

extension MCPCallError {
    /// A server has not answered in time.
    static var tookTooLong: MCPCallError {
        .protocol(code: -32_001, message: "The MCP server took too long for its answer.")
    }
}
