// The question about a session that is over, through a real shard on a simulated kernel: when it is asked,
// when it is not, and what its record gets.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct AfterCallTests {
    private static let key = "sk-key-0123456789abcdef"
    private static let question = "Summarise."

    private let keeper = CollectingKeeper()
    private let log = LogRecord()

    /// A model that answers the question after a time, or fails, and anything else with "Certainly.".
    private func model(
        _ answer: String = "Two loaves.", after time: Duration = .zero, fails: Bool = false
    ) -> ClosureModel {
        ClosureModel { request, host, reply in
            guard request.instructions.hasPrefix(Self.question) else {
                return try await reply(.text("Certainly."))
            }
            try await host.sleep(for: time)
            if fails { throw AgentError.upstream(status: 500, message: "broken") }
            try await reply(.text(answer))
            try await reply(.usage(inputTokens: 90, cachedTokens: 0, outputTokens: 9))
        }
    }

    private func makeServer(
        _ model: ClosureModel, schema: RawJSON? = nil, sessions: Int? = nil, keys line: String = "",
        store: SimulatedStore? = nil, keepsRecords: Bool = true,
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var settings = SessionAgent.Settings()
        settings.afterCall = AfterCall(
            instructions: Self.question, schema: schema, model: "careful")
        var instructions = SessionUpdate()
        instructions.instructions = .value("You sell bread.")
        instructions.outputModality = .value(.text)
        let profile = AgentProfile(
            name: "desk", model: "small", updates: [instructions], settings: settings,
            maxSessions: sessions)
        var configuration = ServerConfiguration()
        change(&configuration)
        var keys = APIKeys()
        try keys.add(
            ConfiguredFile(
                option: "api-keys-file", path: "k", bytes: Array("\(Self.key) \(line)\n".utf8)))
        return try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: model), log: log,
            credentials: CredentialRules(keys: keys), store: store
        ) {
            $0.profiles = AgentDirectory(AgentProfiles([profile]))
            $0.records = keepsRecords ? keeper : nil
        }
    }

    private func open(
        _ server: SimulatedServer, _ query: String = "agent=desk"
    ) -> SimulatedClient {
        let client = server.openClient("/v1/realtime?\(query)", key: Self.key)
        #expect(server.run())
        return client
    }

    private func say(_ text: String, _ client: SimulatedClient, _ server: SimulatedServer) {
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .milliseconds(100)))
    }

    /// A conversation of one turn, whose client closes.
    private func converse(_ server: SimulatedServer) {
        let client = open(server)
        say("Two loaves, please.", client, server)
        client.close()
        #expect(server.run())
    }

    private var answers: [AfterCallAnswer] {
        keeper.changes.compactMap {
            if case .answered(let answer)? = $0.afterCall { answer } else { nil }
        }
    }

    private var notAsked: [String] {
        answers.compactMap {
            if case .failed(code: "not_asked", let message) = $0 { message } else { nil }
        }
    }

    private func outcomes(_ server: SimulatedServer) -> [Int] {
        [ShardMetric.afterCallsAnswered, .afterCallsFailed, .afterCallsNotAsked].map {
            server.metrics.total(of: $0)
        }
    }

    /// Nothing is left of the question.
    private func expectNothingLeft(_ server: SimulatedServer) {
        #expect(server.metrics.textRequests.load(ordering: .relaxed) == 0)
        #expect(server.shard.textRequests.all.isEmpty && server.shard.sessions.count == 0)
        for metric in [ShardMetric.textRequestsOpen, .ledgerBytes, .agentTasks] {
            #expect(server.metrics.total(of: metric) == 0, "\(metric)")
        }
    }

    // MARK: Asked

    @Test func theModelIsAskedOnceWhenTheSessionIsOver() throws {
        let model = model(after: .seconds(3))
        let server = try makeServer(model)
        converse(server)
        let end = try #require(keeper.changes.last)
        #expect(end.end?.reason == .clientClosed && end.afterCall == .asked)
        #expect(server.metrics.total(of: .sessionsOpen) == 0, "no session is kept for it")
        #expect(server.metrics.textRequests.load(ordering: .relaxed) == 1)
        #expect(server.run(for: .seconds(120)))
        #expect(answers == [.text("Two loaves.")])
        let last = try #require(keeper.changes.last)
        #expect(last.sessionID == end.sessionID && last.fence == end.fence && last.end == nil)
        #expect(last.items.isEmpty && last.summary.agent == "desk")
        let asked = model.requests
        #expect(asked.map(\.model) == ["small", "careful"])
        #expect(asked.map(\.instructions) == ["You sell bread.", Self.question])
        #expect(
            asked.last?.messages == [
                .user("This conversation is over:\n\nUser: Two loaves, please.\nAgent: Certainly.")
            ])
        #expect(outcomes(server) == [1, 0, 0])
        expectNothingLeft(server)
    }

    @Test func withASchemaTheAnswerIsAnObject() throws {
        let model = model("Here it is:\n```json\n{ \"loaves\": 2 }\n```")
        let server = try makeServer(model, schema: RawJSON(#"{"type":"object"}"#))
        converse(server)
        #expect(server.run(for: .seconds(1)))
        #expect(answers == [.data(RawJSON(#"{"loaves":2}"#))])
        #expect(model.requests.last?.instructions.hasSuffix(#":\#n{"type":"object"}"#) == true)
    }

    /// It does not matter who ended it.
    @Test func aLostConnectionAndTheServersCloseAreEnds() throws {
        let server = try makeServer(model())
        let lost = open(server)
        say("One loaf.", lost, server)
        lost.peer.reset()
        lost.isReading = false
        #expect(server.run(for: .seconds(1)))
        #expect(keeper.end == SessionEnd(.connectionLost) && answers.count == 1)
        let broken = open(server)
        say("One loaf.", broken, server)
        broken.peer.send([0xF1, 0x80, 0, 0, 0, 0])
        #expect(server.run(for: .seconds(1)))
        #expect(keeper.end?.closeCode == .protocolError && answers.count == 2)
    }

    @Test func aClientThatStaysAwayIsAskedAboutWhenItIsTooLate() throws {
        let server = try makeServer(model())
        let client = open(server, "agent=desk&resume=true")
        say("One loaf.", client, server)
        client.peer.reset()
        client.isReading = false
        #expect(server.run(for: .seconds(10)))
        #expect(answers.isEmpty && keeper.end == nil)
        #expect(server.run(for: .seconds(130)))
        #expect(keeper.end == SessionEnd(.notResumed) && answers.count == 1)
    }

    /// Its place among the sessions is free for the next call, which does not wait for the answer.
    @Test func theNextCallHasItsPlace() throws {
        let server = try makeServer(
            model(after: .seconds(30)), sessions: 1, keys: "max-sessions=1")
        converse(server)
        #expect(open(server).isOpen && answers.isEmpty)
        #expect(server.run(for: .seconds(40)))
        #expect(answers.count == 1)
    }

    @Test func itIsATurnOfItsCaller() throws {
        let server = try makeServer(model(), keys: "quotas=turns=5/day")
        for _ in 0..<3 {
            converse(server)
            #expect(server.run(for: .seconds(1)))
        }
        #expect(
            answers.map { if case .failed(let code, _) = $0 { code } else { "" } }
                == ["", "", "rate_limit_exceeded"])
        expectNothingLeft(server)
    }

    // MARK: Not asked

    @Test func aSessionWithoutWordsIsNotAskedAbout() throws {
        let model = model()
        let server = try makeServer(model)
        open(server).close()
        let silent = open(server)
        say("?!", silent, server)
        silent.close()
        #expect(server.run(for: .seconds(10)))
        #expect(keeper.changes.compactMap(\.end).count == 2)
        #expect(keeper.changes.allSatisfy { $0.afterCall == nil } && model.requests.count == 1)
    }

    @Test func withoutARecordAndWithoutAnAgentNothingIsAsked() throws {
        let model = model()
        let server = try makeServer(model, keepsRecords: false)
        converse(server)
        let other = try makeServer(model)
        let client = open(other, "model=test")
        say("One loaf.", client, other)
        client.close()
        #expect(server.run(for: .seconds(10)) && other.run(for: .seconds(10)))
        #expect(model.requests.allSatisfy { $0.instructions != Self.question } && answers.isEmpty)
    }

    @Test func aSessionThatGoesOnElsewhereIsNotAskedAboutHere() throws {
        let server = try makeServer(model(), store: SimulatedStore())
        let client = open(server, "agent=desk&resume=true")
        say("One loaf.", client, server)
        #expect(server.run(for: .seconds(2)))
        server.shard.drain(.zero)
        #expect(server.run(for: .seconds(60)))
        #expect(keeper.end?.reason == .continuedElsewhere)
        #expect(keeper.changes.allSatisfy { $0.afterCall == nil })
    }

    @Test func withoutAPlaceItIsNotAsked() throws {
        let server = try makeServer(model(after: .seconds(5))) { $0.textRequests.maxRequests = 1 }
        converse(server)
        converse(server)
        #expect(notAsked == ["All places of text requests were taken (max-text-turns)."])
        let changes = keeper.changes.filter { $0.afterCall != nil }
        #expect(changes.map { $0.afterCall == .asked }.suffix(2) == [true, false])
        #expect(server.run(for: .seconds(10)))
        #expect(answers.last == .text("Two loaves.") && outcomes(server) == [1, 0, 1])
        expectNothingLeft(server)
    }

    @Test func withoutMemoryItIsNotAsked() throws {
        let server = try makeServer(model()) { $0.memory.maxBytes = 1 << 30 }
        let client = open(server)
        say("One loaf.", client, server)
        server.memory.resident.store(1 << 30, ordering: .relaxed)
        // What the allocator only keeps goes back first, and the next reading judges.
        for _ in 0..<2 {
            #expect(server.run(for: .seconds(2)))
            say("Are you there?", client, server)
        }
        client.close()
        #expect(server.run(for: .seconds(1)))
        #expect(notAsked == ["The server was short of memory."])
    }

    // MARK: No answer

    @Test func aFailureOfTheModelIsTheAnswer() throws {
        let server = try makeServer(model(fails: true))
        converse(server)
        #expect(server.run(for: .seconds(1)))
        guard case .failed(code: "upstream_error", let message)? = answers.first else {
            Issue.record("\(answers)")
            return
        }
        #expect(!message.isEmpty && answers.count == 1 && outcomes(server) == [0, 1, 0])
        #expect(log.lines.filter { $0.contains("response failed") }.count == 1)
        expectNothingLeft(server)
    }

    @Test func aModelHasAMinute() throws {
        let model = model(after: .seconds(600))
        let server = try makeServer(model)
        converse(server)
        #expect(server.run(for: .seconds(59)) && answers.isEmpty)
        #expect(server.run(for: .seconds(2)))
        let message = "The model had not answered after 60 s."
        #expect(answers == [.failed(code: "timeout", message: message)])
        #expect(model.cancelled == 1)
        expectNothingLeft(server)
    }

    // MARK: The end of the server

    @Test func aDrainWaitsForTheAnswer() throws {
        let server = try makeServer(model(after: .seconds(5)))
        let client = open(server)
        say("One loaf.", client, server)
        server.shard.drain(.zero)
        #expect(server.run(for: .seconds(20)))
        #expect(server.hasStopped && keeper.end?.closeCode == .serviceRestart)
        #expect(answers == [.text("Two loaves.")])
    }

    @Test func aDrainThatIsOverCutsTheAnswer() throws {
        let model = model(after: .seconds(50))
        let server = try makeServer(model) { $0.drain.timeout = .seconds(3) }
        converse(server)
        server.shard.drain(.zero)
        #expect(server.run())
        #expect(server.run(for: .seconds(10)))
        #expect(server.hasStopped && model.cancelled == 1)
        #expect(answers == [.failed(code: "reply_stopped", message: "The reply was stopped.")])
    }

    @Test func aServerThatStopsAsksNothing() throws {
        let server = try makeServer(model())
        let client = open(server)
        say("One loaf.", client, server)
        server.shard.stop(.goingAway)
        #expect(server.run(for: .seconds(10)))
        #expect(server.hasStopped && notAsked == ["The server was stopping."])
    }
}
