// MCP over stdio with scripted programs of both eras: the program is asked for its form first, the
// sessions' requests do not mix, and waiting requests fail when the program ends.

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

/// A host whose clock stands still: `sleep` ends by cancellation, or when a test wakes all who sleep
/// for a time.
private final class TimelessHost: HostWithoutServices {
    private struct Sleeper {
        let duration: Duration
        let continuation: CheckedContinuation<Void, Never>
    }

    private let sleepers = Mutex<(next: Int, waiting: [Int: Sleeper])>((0, [:]))

    /// Waits until a task sleeps for this time, and wakes it.
    func wake(after duration: Duration) async throws {
        while true {
            try Task.checkCancellation()
            let found = sleepers.withLock { state -> Sleeper? in
                let id = state.waiting.first { $0.value.duration == duration }?.key
                return id.flatMap { state.waiting.removeValue(forKey: $0) }
            }
            if let found { return found.continuation.resume() }
            await Task.yield()
        }
    }

    func sleep(for duration: Duration) async throws {
        let id = sleepers.withLock { state in
            defer { state.next += 1 }
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = sleepers.withLock { state in
                    guard !Task.isCancelled else { return true }
                    state.waiting[id] = Sleeper(duration: duration, continuation: continuation)
                    return false
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            sleepers.withLock { $0.waiting.removeValue(forKey: id) }?.continuation.resume()
        }
        try Task.checkCancellation()
    }
}

@Suite(.timeLimit(.minutes(5))) struct MCPStdioTests {
    private static let handshake =
        #"{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":"2025-06-18"}}"#

    private static let refusal =
        #"{"jsonrpc":"2.0","id":"discover","error":{"code":-32602,"message":"Invalid request"}}"#
    private static let discovery =
        #"{"jsonrpc":"2.0","id":"discover","result":{"supportedVersions":["2026-07-28"]}}"#
    private static let lateHandshake =
        #"{"jsonrpc":"2.0","id":"initialize","error":{"code":-32022,"message":"no","#
        + #""data":{"supported":["2026-07-28"]}}}"#

    /// Answers the handshake, and each call with the call's id, as a program of mcp 1.30.0.
    private static let wellBehaved: @Sendable (String) -> String? = { line in
        if line.contains("server/discover") { return refusal }
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

    /// Answers discovery and calls as a program of mcp 2.3.0.
    private static let stateless: @Sendable (String) -> String? = { line in
        if line.contains("server/discover") { return discovery }
        if line.contains(#""method":"initialize""#) { return lateHandshake }
        return wellBehaved(line)
    }

    private func methods(_ scripted: ScriptedProgram) -> [String] {
        scripted.lines.map { line in
            (line.split(separator: "\"method\":\"").last.map { $0.prefix { $0 != "\"" } }).map(
                String.init) ?? ""
        }
    }

    @Test func aStatelessProgramNeedsNoHandshake() async throws {
        let (program, scripted) = make(Self.stateless)
        let host = TimelessHost()
        let client = client(program)
        let text = try await client.call("t", arguments: "{}", id: "item_1", on: host)
        #expect(text == "1.item_1")
        await client.cancelCall(id: "item_1", on: host)
        #expect(methods(scripted) == ["server/discover", "tools/call", "notifications/cancelled"])
        for line in scripted.lines.prefix(2) {
            #expect(line.contains(#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#))
        }
        #expect(!scripted.lines[2].contains("_meta"))
    }

    @Test func aProgramThatIsSilentAfterTheProbeGetsTheHandshake() async throws {
        let (program, scripted) = make { line in
            line.contains("server/discover") ? nil : Self.wellBehaved(line)
        }
        let host = TimelessHost()
        let client = client(program)
        let call = Task { try await client.call("t", arguments: "{}", id: "item_1", on: host) }
        try await host.wake(after: MCPProgram.probeLimit)
        #expect(try await call.value == "1.item_1")
        #expect(
            methods(scripted) == [
                "server/discover", "initialize", "notifications/initialized", "tools/call",
            ])
    }

    @Test func aProgramThatIsSlowToStartIsStatelessAfterAll() async throws {
        // It reads the probe and the handshake at once, and answers both.
        let (program, scripted) = make { line in
            line.contains("server/discover") || line.contains("initialize")
                ? nil : Self.wellBehaved(line)
        }
        for order in [[Self.discovery, Self.lateHandshake], [Self.lateHandshake, Self.discovery]] {
            let host = TimelessHost()
            let client = client(program)
            let call = Task { try await client.call("t", arguments: "{}", id: "item_1", on: host) }
            try await host.wake(after: MCPProgram.probeLimit)
            try await yield { methods(scripted).last == "initialize" }
            for line in order { scripted.say(line) }
            #expect(try await call.value.hasSuffix(".item_1"))
            #expect(scripted.lines.last?.contains("_meta") == true)
            #expect(!methods(scripted).contains("notifications/initialized"))
            scripted.end(isPaused: false)
        }
    }

    @Test func aProgramThatEndsAtTheProbeIsStartedAgainWithTheHandshake() async throws {
        let (program, scripted) = make { line in
            line.contains("server/discover") ? nil : Self.wellBehaved(line)
        }
        let host = TimelessHost()
        let client = client(program)
        let calls = [
            Task { try await client.call("t", arguments: "{}", id: "item_1", on: host) },
            Task { try await client.call("t", arguments: "{}", id: "item_2", on: host) },
        ]
        try await yield { methods(scripted) == ["server/discover"] }
        scripted.end(isPaused: false)
        try await host.wake(after: MCPProgram.probeLimit)
        #expect(try await calls[0].value == "1.item_1")
        #expect(try await calls[1].value == "1.item_2")
        #expect(methods(scripted)[1...2] == ["initialize", "notifications/initialized"])
        // The next start begins with the handshake.
        scripted.end(isPaused: false)
        #expect(
            try await client.call("t", arguments: "{}", id: "item_3", on: host) == "1.item_3")
        #expect(methods(scripted).count { $0 == "server/discover" } == 1)
    }

    @Test func aProgramThatCannotBeStartedAgainFailsItsRequests() async throws {
        let (program, scripted) = make { _ in nil }
        let host = TimelessHost()
        let client = client(program)
        let call = Task { try await client.call("t", arguments: "{}", id: "item_1", on: host) }
        try await yield { methods(scripted) == ["server/discover"] }
        scripted.end(isPaused: true)
        try await host.wake(after: MCPProgram.probeLimit)
        await #expect(throws: AgentError.self) { try await call.value }
    }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":"1999-01-01"}}"#,
        #"{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":{}}}"#,
        #"{"jsonrpc":"2.0","id":"initialize","error":{"code":-32603,"message":"no"}}"#,
    ])
    func aProgramThatRefusesBothFormsFailsAtOnce(_ answer: String) async {
        let (program, scripted) = make { line in
            line.contains("server/discover") ? Self.refusal : answer
        }
        let host = TimelessHost()
        for id in ["item_1", "item_2"] {
            await #expect(throws: AgentError.self) {
                try await client(program).call("t", arguments: "{}", id: id, on: host)
            }
        }
        #expect(methods(scripted) == ["server/discover", "initialize"])
    }

    @Test func aProgramOfUnknownVersionsIsRefused() async {
        let (program, _) = make { _ in
            #"{"jsonrpc":"2.0","id":"discover","error":{"code":-32022,"message":"no","#
                + #""data":{"supported":["2031-01-01"]}}}"#
        }
        await #expect(throws: AgentError.self) {
            try await client(program).call("t", arguments: "{}", id: "i", on: TimelessHost())
        }
    }

    @Test func shakesHandsFirstAndKeepsSessionsApart() async throws {
        let (program, scripted) = make(Self.wellBehaved)
        let host = TimelessHost()
        let first = try await client(program).call("t", arguments: "{}", id: "item_1", on: host)
        let second = try await client(program).call("t", arguments: "{}", id: "item_1", on: host)
        #expect(first == "1.item_1" && second == "2.item_1")
        #expect(
            methods(scripted) == [
                "server/discover", "initialize", "notifications/initialized", "tools/call",
                "tools/call",
            ])
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
        try await yield { scripted.lines.contains { $0.contains("never") } }
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
        try await yield { scripted.lines.contains { $0.contains("never") } }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }
}
