// MCP over stdio with a scripted program: the handshake comes first, the sessions' requests do not
// mix, and waiting requests fail when the program ends.

import Codec
import Session
import Synchronization
import Testing

@testable import Agents

/// A program that answers each line at once, by a rule.
private final class ScriptedProgram: LineProgram {
    private struct State {
        var lines: [String] = []
        var isRunning = false
        var isPaused = false
    }

    private let state = Mutex(State())
    private let handler: @Sendable (LineProgramEvent) -> Void
    private let answer: @Sendable (String) -> String?

    init(
        _ handler: @escaping @Sendable (LineProgramEvent) -> Void,
        answer: @escaping @Sendable (String) -> String?
    ) {
        self.handler = handler
        self.answer = answer
    }

    var lines: [String] { state.withLock { $0.lines } }

    func start() throws {
        let begins = state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if state.withLock({ $0.isPaused }) {
            throw AgentError.unavailable(message: "paused")
        }
        if begins { handler(.started) }
    }

    func send(_ line: [UInt8]) throws {
        let text = String(decoding: line, as: UTF8.self)
        state.withLock { $0.lines.append(text) }
        if let answer = answer(text) { handler(.line(Array(answer.utf8))) }
    }

    func stop() { end(isPaused: true) }

    func say(_ line: String) { handler(.line(Array(line.utf8))) }

    func end(isPaused: Bool) {
        state.withLock {
            $0.isRunning = false
            $0.isPaused = isPaused
        }
        handler(.ended(reason: "it has ended"))
    }
}

/// A host whose clock stands still: `sleep` ends only by cancellation.
private final class TimelessHost: HostWithoutServices {
    private let sleepers = Mutex<(next: Int, waiting: [Int: CheckedContinuation<Void, Never>])>(
        (0, [:]))

    func sleep(for duration: Duration) async throws {
        let id = sleepers.withLock { state in
            defer { state.next += 1 }
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = sleepers.withLock { state in
                    guard !Task.isCancelled else { return true }
                    state.waiting[id] = continuation
                    return false
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            sleepers.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
        }
        try Task.checkCancellation()
    }
}

struct MCPStdioTests {
    private static let handshake =
        #"{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":"2025-06-18"}}"#

    /// Answers the handshake, and each call with the call's id.
    private static let wellBehaved: @Sendable (String) -> String? = { line in
        if line.contains(#""method":"initialize""#) { return handshake }
        guard line.contains("tools/call"), let start = line.firstRange(of: #""id":""#) else {
            return nil
        }
        let id = line[start.upperBound...].prefix { $0 != "\"" }
        return #"{"jsonrpc":"2.0","id":"\#(id)","result":{"content":[{"type":"text","#
            + #""text":"\#(id)"}]}}"#
    }

    private func make(
        _ answer: @escaping @Sendable (String) -> String?
    ) -> (program: MCPProgram, scripted: ScriptedProgram) {
        let made = Mutex<ScriptedProgram?>(nil)
        let program = MCPProgram { handler in
            let scripted = ScriptedProgram(handler, answer: answer)
            made.withLock { $0 = scripted }
            return scripted
        }
        return (program, made.withLock { $0! })
    }

    private func client(_ program: MCPProgram) -> MCPClient {
        MCPClient(transport: program.transport(), timeouts: MCPTimeouts())
    }

    @Test func shakesHandsFirstAndKeepsSessionsApart() async throws {
        let (program, scripted) = make(Self.wellBehaved)
        let host = TimelessHost()
        let first = try await client(program).call("t", arguments: "{}", id: "item_1", on: host)
        let second = try await client(program).call("t", arguments: "{}", id: "item_1", on: host)
        #expect(first == "1.item_1" && second == "2.item_1")
        let methods = scripted.lines.map { line in
            line.split(separator: "\"method\":\"").last.map { $0.prefix { $0 != "\"" } } ?? ""
        }
        #expect(
            methods == ["initialize", "notifications/initialized", "tools/call", "tools/call"])
    }

    @Test func cancelsACallByTheIDThatWasSent() async throws {
        let (program, scripted) = make(Self.wellBehaved)
        let host = TimelessHost()
        let client = client(program)
        _ = try await client.call("t", arguments: "{}", id: "item_1", on: host)
        await client.cancelCall(id: "item_1", on: host)
        #expect(scripted.lines.last?.contains(#"{"requestId":"1.item_1"}"#) == true)
    }

    @Test func theProgramsEndFailsWaitingRequestsAndItsRestartShakesHandsAgain() async throws {
        let silent: @Sendable (String) -> String? = { line in
            line.contains("never") ? nil : Self.wellBehaved(line)
        }
        let (program, scripted) = make(silent)
        let host = TimelessHost()
        let client = client(program)
        _ = try await client.call("t", arguments: "{}", id: "item_1", on: host)
        let waiting = Task {
            try await client.call("never", arguments: "{}", id: "item_2", on: host)
        }
        while !scripted.lines.contains(where: { $0.contains("never") }) { await Task.yield() }
        scripted.end(isPaused: false)
        await #expect(throws: AgentError.self) { try await waiting.value }
        let again = try await client.call("t", arguments: "{}", id: "item_3", on: host)
        #expect(again == "1.item_3")
        #expect(scripted.lines.count { $0.contains(#""method":"initialize""#) } == 2)
        scripted.end(isPaused: true)
        await #expect(throws: AgentError.self) {
            try await client.call("t", arguments: "{}", id: "item_4", on: host)
        }
    }

    @Test func linesThatAreNotMessagesAreIgnoredAndPingsAreAnswered() async throws {
        let (program, scripted) = make(Self.wellBehaved)
        let host = TimelessHost()
        _ = try await client(program).call("t", arguments: "{}", id: "item_1", on: host)
        scripted.say("Listening...")
        scripted.say(#"{"jsonrpc":"2.0","id":"unknown","result":{}}"#)
        scripted.say(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        #expect(scripted.lines.last == #"{"jsonrpc":"2.0","id":1,"result":{}}"#)
    }

    @Test func cancellationEndsAWaitingRequest() async throws {
        let (program, scripted) = make { line in
            line.contains("never") ? nil : Self.wellBehaved(line)
        }
        let host = TimelessHost()
        let client = client(program)
        let task = Task {
            try await client.call("never", arguments: "{}", id: "item_1", on: host)
        }
        while !scripted.lines.contains(where: { $0.contains("never") }) { await Task.yield() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
