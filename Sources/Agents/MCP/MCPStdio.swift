// The stdio transport of the Model Context Protocol: a program that the operator has configured,
// and lines of JSON to and from it. All sessions share one program, because each would cost the
// memory of a whole process; each session has its own transport to it. The implementation of
// `LineProgram` (Server/ChildProcess) starts, watches and ends programs.
//
// The first line to a program asks for a stateless revision (`server/discover`). A program of an
// earlier one refuses it, stays silent for 2 s, or ends. Then it gets the handshake, in the last
// case after it was started again. Each start of the program finds out anew, since the program may
// have been replaced.
//
//     stopped → probing → ready (stateless)
//                 ↓ ↘
//     restarting  ↓   shakingHands → ready (after a handshake)
//         ↓       ↓        ↓
//         →→→ shakingHands → refused, until the program ends
//
// Invariant: a waiting request is resumed exactly once: by its answer, by the program's end, or by
// the cancellation of its task.
//
// Source: MCP 2025-06-18 and 2026-07-28, "Transports", "stdio".

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
    private enum Stage: Equatable {
        /// The program does not run, or it starts.
        case stopped
        /// `server/discover` has been sent.
        case probing
        /// The program has ended at the probe and is started again; requests wait.
        case restarting
        /// `initialize` has been sent.
        case shakingHands
        /// The version is nil after a handshake.
        case ready(version: String?)
        /// The program speaks no revision that we know.
        case refused
    }

    private struct State {
        var stage = Stage.stopped
        /// Requests to send once the stage is `ready`.
        var queued: [JSONRPCRequest] = []
        var waiting: [String: CheckedContinuation<RawJSON, any Error>] = [:]
        var nextTransport = 1
        /// Whether the running program has been sent the probe, and has not answered it.
        var awaitsProbe = false
        /// Whether the running program has been sent the probe.
        var hasProbed = false
        /// Whether the program has once ended at the probe: the handshake then comes first.
        var endsAtProbe = false
    }

    /// The action after an event. It is performed outside of the lock.
    private enum Step {
        case nothing
        case send(JSONRPCRequest, version: String?)
        /// The program can be used: send the requests that have waited.
        case begin([JSONRPCRequest], version: String?)
        case refuse
        case start
    }

    /// Most requests that wait at once. 4,096: more would only wait longer.
    private static let maxWaiting = 4_096
    /// How long a program may be silent after the probe. 2 s: it is also longer than the pause
    /// before a program is started again.
    static let probeLimit = Duration.seconds(2)
    private static let discoverID = "discover"
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
    fileprivate func request(_ request: JSONRPCRequest) async throws -> MCPReply {
        guard let id = request.id else { preconditionFailure("a request has an id") }
        let result: RawJSON = try await withTaskCancellationHandler {
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
                    try send(request)
                } catch {
                    finish(id, .failure(error))
                }
                // The handler below found nothing where the task was cancelled before.
                if Task.isCancelled { finish(id, .failure(CancellationError())) }
            }
        } onCancel: {
            finish(id, .failure(CancellationError()))
        }
        if case .ready(version: .some) = state.withLock({ $0.stage }) {
            return MCPReply(result: result, isStateless: true)
        }
        return MCPReply(result: result, isStateless: false)
    }

    /// Sends a request now, or queues it until the program can be used.
    private func send(_ request: JSONRPCRequest) throws {
        let step = try state.withLock { state -> Step in
            switch state.stage {
            case .ready(let version): return .send(request, version: version)
            case .refused: return .refuse
            case .stopped, .probing, .restarting, .shakingHands:
                guard state.queued.count < Self.maxWaiting else { throw AgentError.overloaded }
                state.queued.append(request)
                return state.stage == .stopped ? .start : .nothing
            }
        }
        switch step {
        case .nothing, .begin: break
        case .send(let request, let version):
            try program.withLock { $0 }?.send(request.encoded(for: version))
        case .refuse: throw Self.refusal
        case .start:
            do {
                try program.withLock { $0 }?.start()
            } catch {
                state.withLock { $0.queued = [] }
                throw error
            }
        }
    }

    /// Cancels a request that a program has got. A queued one is not sent.
    fileprivate func cancel(id: String) {
        guard case .ready = state.withLock({ $0.stage }) else { return }
        sendToProgram(
            JSONRPCRequest(
                method: "notifications/cancelled", parameters: [.init("requestId", id)]
            ).encoded())
    }

    /// Ends the probe: a request has waited for as long as a program may be silent after it.
    fileprivate func endProbe() {
        let step = state.withLock { state -> Step in
            switch state.stage {
            case .probing: return Self.shakeHands(&state)
            case .restarting:
                state.stage = .stopped
                return .start
            case .stopped, .shakingHands, .ready, .refused: return .nothing
            }
        }
        perform(step)
    }

    private func finish(_ id: String, _ outcome: Result<RawJSON, any Error>) {
        let continuation = state.withLock { state in
            state.queued.removeAll { $0.id == id }
            return state.waiting.removeValue(forKey: id)
        }
        continuation?.resume(with: outcome)
    }

    private static var refusal: AgentError {
        .upstream(status: 0, message: "tool server: it refuses the MCP handshake")
    }

    // MARK: On the program's thread

    private func handle(_ event: LineProgramEvent) {
        switch event {
        case .started:
            perform(
                state.withLock { state in
                    state.endsAtProbe ? Self.shakeHands(&state) : Self.probe(&state)
                })
        case .line(let line): handle(line)
        case .ended(let reason): handleEnd(reason)
        }
    }

    private func handleEnd(_ reason: String) {
        let waiting = state.withLock { state -> [CheckedContinuation<RawJSON, any Error>] in
            let isAtProbe = state.stage == .probing && !state.endsAtProbe
            var next = State(nextTransport: state.nextTransport, endsAtProbe: state.endsAtProbe)
            if isAtProbe {
                next.stage = .restarting
                next.endsAtProbe = true
                swap(&next.queued, &state.queued)
                swap(&next.waiting, &state.waiting)
            }
            let ended = Array(state.waiting.values)
            state = next
            return ended
        }
        for continuation in waiting {
            continuation.resume(
                throwing: AgentError.upstream(status: 0, message: "tool server: \(reason)"))
        }
    }

    private func handle(_ line: [UInt8]) {
        // Some programs also print other text; a line that is not a message is ignored.
        guard let messages = try? JSONRPCMessage.all(in: line) else { return }
        for message in messages {
            switch message {
            case .response(Self.discoverID, let outcome): handleDiscovery(outcome)
            case .response(Self.handshakeID, let outcome): handleHandshake(outcome)
            case .response(let id?, let outcome):
                finish(id, outcome.mapError { $0.callError as any Error })
            case .request(let id, let method):
                sendToProgram(JSONRPCRequest.answer(to: id, method: method))
            case .response(nil, _), .notification: break
            }
        }
    }

    private static func probe(_ state: inout State) -> Step {
        state.stage = .probing
        state.awaitsProbe = true
        state.hasProbed = true
        state.endsAtProbe = false
        return .send(MCPVersion.discover(id: discoverID), version: MCPVersion.newest)
    }

    private static func shakeHands(_ state: inout State) -> Step {
        state.stage = .shakingHands
        return .send(MCPVersion.initialize(id: handshakeID), version: nil)
    }

    /// The program can be used.
    private static func begin(_ state: inout State, version: String?) -> Step {
        state.stage = .ready(version: version)
        defer { state.queued = [] }
        return .begin(state.queued, version: version)
    }

    private func handleDiscovery(_ outcome: Result<RawJSON, JSONRPCFailure>) {
        var version: String?
        var supported: [String] = []
        switch outcome {
        case .success(let result): version = MCPVersion.stateless(discovered: result)
        case .failure(let failure): supported = failure.supportedVersions
        }
        perform(
            state.withLock { state in
                guard state.awaitsProbe else { return .nothing }
                state.awaitsProbe = false
                switch state.stage {
                case .probing, .shakingHands:
                    // A program that is slow to start answers the probe after the handshake was
                    // begun, and refuses the handshake.
                    if let version { return Self.begin(&state, version: version) }
                    guard state.stage == .probing else { return .nothing }
                    guard MCPVersion.mayShakeHands(supported) else { return .refuse }
                    return Self.shakeHands(&state)
                case .stopped, .restarting, .ready, .refused: return .nothing
                }
            })
    }

    private func handleHandshake(_ outcome: Result<RawJSON, JSONRPCFailure>) {
        let isShaken =
            if case .success(let result) = outcome {
                (try? MCPVersion.chosen(in: result)) != nil
            } else {
                false
            }
        perform(
            state.withLock { state in
                guard state.stage == .shakingHands else { return .nothing }
                if isShaken { return Self.begin(&state, version: nil) }
                if state.awaitsProbe {
                    state.stage = .probing
                    return .nothing
                }
                return state.hasProbed ? .refuse : Self.probe(&state)
            })
    }

    private func perform(_ step: Step) {
        switch step {
        case .nothing: break
        case .send(let request, let version): sendToProgram(request.encoded(for: version))
        case .begin(let requests, let version):
            if version == nil { sendToProgram(MCPVersion.initialized.encoded()) }
            for request in requests { sendToProgram(request.encoded(for: version)) }
        case .refuse:
            let waiting = state.withLock { state in
                defer { state.waiting = [:] }
                state.stage = .refused
                state.queued = []
                return state.waiting
            }
            for continuation in waiting.values { continuation.resume(throwing: Self.refusal) }
        case .start:
            do {
                try program.withLock { $0 }?.start()
            } catch {
                handleEnd("it ended at its start")
            }
        }
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
    ) async throws -> MCPReply {
        var named = request
        named.id = request.id.map(prefixed)
        let sent = named
        return try await withThrowingTaskGroup(of: MCPReply.self) { group in
            group.addTask { try await program.request(sent) }
            group.addTask {
                let probe = min(limit, MCPProgram.probeLimit)
                try await host.sleep(for: probe)
                program.endProbe()
                try await host.sleep(for: limit - probe)
                throw MCPCallError.tookTooLong
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw CancellationError() }
            return first
        }
    }

    /// Names the request with the session's number, as it was sent.
    func cancel(id: String, on host: any AgentHost) async { program.cancel(id: prefixed(id)) }

    /// Does nothing: the program serves other sessions and keeps no state for this one.
    func close(on host: any AgentHost) async {}
}
