// The stdio transport of the Model Context Protocol: a program of the operator's, spoken to in
// lines of JSON. One program serves all sessions of the server, as its memory is that of a whole
// process; each session has a transport of its own onto it. How programs are started, watched and
// ended is the port's implementation (Server/ChildProcess).
//
// Invariant: whoever waits is resumed exactly once: by the answer, by the program's end, or by the
// cancellation of its task.
//
// Source: MCP 2025-06-18, "Transports", "stdio".

import Codec
import Session
import Synchronization

/// A program that is spoken to in lines. Calls may come from any thread.
public protocol LineProgram: Sendable {
    /// Starts it, if it does not run; `.started` follows.
    /// - Throws: `AgentError.unavailable` while it is held back after it has failed.
    func start() throws
    /// Sends a line, the line feed not included.
    /// - Throws: `AgentError.overloaded` when too much waits for the program to read it.
    func send(_ line: [UInt8]) throws
    /// Ends it for good, and waits for its end.
    func stop()
}

/// What comes of a program, on a thread of its own.
public enum LineProgramEvent: Sendable {
    case started
    case line([UInt8])
    /// It has ended, or cannot be started; the reason is for the operator.
    case ended(reason: String)
}

/// Makes the program that reports to `handler`.
public typealias LineProgramFactory =
    @Sendable (_ handler: @escaping @Sendable (LineProgramEvent) -> Void) -> any LineProgram

/// An MCP server as a program, shared by all sessions that name it.
final class MCPProgram: Sendable {
    private struct State {
        /// Whether the program has answered our greeting.
        var isReady = false
        /// Lines that wait for that.
        var held: [[UInt8]] = []
        var waiting: [String: CheckedContinuation<RawJSON, any Error>] = [:]
        var nextTransport = 1
    }

    /// Requests that may wait at once. 4,096: more only wait longer.
    private static let maxWaiting = 4_096
    private static let greetingID = "initialize"

    private let state = Mutex(State())
    private let program = Mutex<(any LineProgram)?>(nil)

    /// - Parameter makeProgram: called once; the program starts with the first request.
    init(_ makeProgram: LineProgramFactory) {
        let made = makeProgram { [weak self] event in self?.handle(event) }
        program.withLock { $0 = made }
    }

    /// One session's way to it.
    func transport() -> MCPStdio {
        MCPStdio(
            program: self,
            number: state.withLock { state in
                defer { state.nextTransport += 1 }
                return state.nextTransport
            })
    }

    func stop() { program.withLock { $0 }?.stop() }

    /// Sends a request and waits for its result.
    fileprivate func request(_ request: JSONRPCRequest) async throws -> RawJSON {
        guard let id = request.id else { preconditionFailure("a request has an id") }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard !Task.isCancelled else {
                    return continuation.resume(throwing: CancellationError())
                }
                let isTaken = state.withLock { state in
                    guard state.waiting.count < Self.maxWaiting else { return false }
                    state.waiting[id] = continuation
                    return true
                }
                guard isTaken else { return continuation.resume(throwing: AgentError.overloaded) }
                do {
                    try send(request.encoded)
                } catch {
                    finish(id, .failure(error))
                }
            }
        } onCancel: {
            finish(id, .failure(CancellationError()))
        }
    }

    /// Sends a line, at once or once the program has been greeted.
    fileprivate func send(_ line: [UInt8]) throws {
        let (isReady, isFull) = state.withLock { state -> (Bool, Bool) in
            if state.isReady { return (true, false) }
            guard state.held.count < Self.maxWaiting else { return (false, true) }
            state.held.append(line)
            return (false, false)
        }
        guard !isFull else { throw AgentError.overloaded }
        guard let program = program.withLock({ $0 }) else { return }
        if isReady {
            try program.send(line)
        } else {
            do {
                try program.start()
            } catch {
                state.withLock { $0.held = [] }
                throw error
            }
        }
    }

    private func finish(_ id: String, _ outcome: Result<RawJSON, any Error>) {
        let continuation = state.withLock { $0.waiting.removeValue(forKey: id) }
        continuation?.resume(with: outcome)
    }

    // MARK: On the program's thread

    private func handle(_ event: LineProgramEvent) {
        switch event {
        case .started: sendToProgram(MCPVersion.initialize(id: Self.greetingID).encoded)
        case .line(let line): handle(line)
        case .ended(let reason):
            let waiting = state.withLock { state in
                defer { state = State(nextTransport: state.nextTransport) }
                return state.waiting
            }
            for continuation in waiting.values {
                continuation.resume(
                    throwing: AgentError.upstream(status: 0, message: "tool server: \(reason)"))
            }
        }
    }

    private func handle(_ line: [UInt8]) {
        // Programs print other things by mistake; a line that is no message means nothing.
        guard let messages = try? JSONRPCMessage.all(in: line) else { return }
        for message in messages {
            switch message {
            case .response(Self.greetingID, let outcome): handleGreeting(outcome)
            case .response(let id?, let outcome):
                finish(id, outcome.mapError { $0 as any Error })
            case .request(let id, let method):
                sendToProgram(JSONRPCRequest.answer(to: id, method: method))
            case .response(nil, _), .notification: break
            }
        }
    }

    private func handleGreeting(_ outcome: Result<RawJSON, MCPCallError>) {
        guard case .success(let result) = outcome, (try? MCPVersion.chosen(in: result)) != nil
        else { return handle(.ended(reason: "it refuses the protocol's greeting")) }
        sendToProgram(MCPVersion.initialized.encoded)
        let held = state.withLock { state in
            defer { state.held = [] }
            state.isReady = true
            return state.held
        }
        for line in held { sendToProgram(line) }
    }

    /// What cannot be sent now is answered by nobody; its time runs out.
    private func sendToProgram(_ line: [UInt8]) {
        try? program.withLock({ $0 })?.send(line)
    }
}

/// One session's messages to a shared program.
struct MCPStdio: MCPTransport {
    let program: MCPProgram
    /// Tells the requests of sessions apart.
    let number: Int

    private func name(_ id: String) -> String { "\(number).\(id)" }

    func request(
        _ request: JSONRPCRequest, within limit: Duration, on host: any AgentHost
    ) async throws -> RawJSON {
        var named = request
        named.id = request.id.map(name)
        let sent = named
        return try await withThrowingTaskGroup(of: RawJSON.self) { group in
            group.addTask { try await program.request(sent) }
            group.addTask {
                try await host.sleep(for: limit)
                throw MCPCallError.protocol(
                    code: -32_001, message: "The MCP server took too long for its answer.")
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw CancellationError() }
            return first
        }
    }

    func notify(_ notification: JSONRPCRequest, on host: any AgentHost) async throws {
        var notification = notification
        // A request is named with the session's number wherever it is named.
        if notification.method == "notifications/cancelled",
            let id = notification.params.flatMap({
                try? JSONParser().parse($0.text)["requestId"]?.string
            })
        {
            notification.params = RawJSON(#"{"requestId":"\#(name(id))"}"#)
        }
        try program.send(notification.encoded)
    }

    /// The program serves others; nothing of the session is left in it.
    func close(on host: any AgentHost) async {}
}
