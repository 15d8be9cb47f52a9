// The stdio transport of the Model Context Protocol: a program that the operator has configured,
// and lines of JSON to and from it. All sessions share one program, because each would cost the
// memory of a whole process; each session has its own transport to it. The implementation of
// `LineProgram` (Server/ChildProcess) starts, watches and ends programs.
//
// Invariant: a waiting request is resumed exactly once: by its answer, by the program's end, or by
// the cancellation of its task.
//
// Source: MCP 2025-06-18, "Transports", "stdio".

import Codec
import Session
import Synchronization

/// A program that reads and writes lines. Its methods may be called from any thread.
public protocol LineProgram: Sendable {
    /// Starts the program unless it runs; `.started` follows.
    /// - Throws: `AgentError.unavailable` during the pause that follows a failure.
    func start() throws
    /// Sends a line, given without its line feed.
    /// - Throws: `AgentError.overloaded` when too many bytes wait for the program to read them.
    func send(_ line: [UInt8]) throws
    /// Ends the program for good, and waits for its end.
    func stop()
}

/// An event of a program, reported on a thread of its own.
public enum LineProgramEvent: Sendable {
    case started
    case line([UInt8])
    /// The program has ended, or cannot be started; the reason is for the operator.
    case ended(reason: String)
}

/// Makes the program that reports to `handler`.
public typealias LineProgramFactory =
    @Sendable (_ handler: @escaping @Sendable (LineProgramEvent) -> Void) -> any LineProgram

/// An MCP server that runs as a program, shared by all sessions that name it.
final class MCPProgram: Sendable {
    private struct State {
        /// Whether the handshake is complete.
        var isReady = false
        /// Lines to send once the handshake is complete.
        var queuedLines: [[UInt8]] = []
        var waiting: [String: CheckedContinuation<RawJSON, any Error>] = [:]
        var nextTransport = 1
    }

    /// Most requests that wait at once. 4,096: more would only wait longer.
    private static let maxWaiting = 4_096
    private static let handshakeID = "initialize"

    private let state = Mutex(State())
    private let program = Mutex<(any LineProgram)?>(nil)

    /// - Parameter makeProgram: called once; the program starts with the first request.
    init(_ makeProgram: LineProgramFactory) {
        let made = makeProgram { [weak self] event in self?.handle(event) }
        program.withLock { $0 = made }
    }

    /// Makes one session's transport to the program.
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

    /// Sends a line now, or queues it until the handshake is complete.
    fileprivate func send(_ line: [UInt8]) throws {
        let (isReady, isFull) = state.withLock { state -> (Bool, Bool) in
            if state.isReady { return (true, false) }
            guard state.queuedLines.count < Self.maxWaiting else { return (false, true) }
            state.queuedLines.append(line)
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
                state.withLock { $0.queuedLines = [] }
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
        case .started: sendToProgram(MCPVersion.initialize(id: Self.handshakeID).encoded)
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
        // Some programs also print other text; a line that is not a message is ignored.
        guard let messages = try? JSONRPCMessage.all(in: line) else { return }
        for message in messages {
            switch message {
            case .response(Self.handshakeID, let outcome): handleHandshake(outcome)
            case .response(let id?, let outcome):
                finish(id, outcome.mapError { $0 as any Error })
            case .request(let id, let method):
                sendToProgram(JSONRPCRequest.answer(to: id, method: method))
            case .response(nil, _), .notification: break
            }
        }
    }

    private func handleHandshake(_ outcome: Result<RawJSON, MCPCallError>) {
        guard case .success(let result) = outcome, (try? MCPVersion.chosen(in: result)) != nil
        else { return handle(.ended(reason: "it refuses the MCP handshake")) }
        sendToProgram(MCPVersion.initialized.encoded)
        let lines = state.withLock { state in
            defer { state.queuedLines = [] }
            state.isReady = true
            return state.queuedLines
        }
        for line in lines { sendToProgram(line) }
    }

    /// Sends a line, or drops it when the program cannot take it: the request then times out.
    private func sendToProgram(_ line: [UInt8]) {
        try? program.withLock({ $0 })?.send(line)
    }
}

/// One session's messages to a shared program.
struct MCPStdio: MCPTransport {
    let program: MCPProgram
    /// The prefix of the session's request ids, which the shared program sees beside those of
    /// others.
    let number: Int

    private func prefixed(_ id: String) -> String { "\(number).\(id)" }

    func request(
        _ request: JSONRPCRequest, within limit: Duration, on host: any AgentHost
    ) async throws -> RawJSON {
        var named = request
        named.id = request.id.map(prefixed)
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
        // The notification carries the request's id with the session's number, as the request did.
        if notification.method == "notifications/cancelled",
            let id = notification.params.flatMap({
                try? JSONParser().parse($0.text)["requestId"]?.string
            })
        {
            notification.params = RawJSON(#"{"requestId":"\#(prefixed(id))"}"#)
        }
        try program.send(notification.encoded)
    }

    /// Does nothing: the program serves other sessions and keeps no state for this one.
    func close(on host: any AgentHost) async {}
}
