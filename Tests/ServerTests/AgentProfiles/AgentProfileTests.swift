// Agents of a file through a real shard on a simulated kernel: how many sessions each has, and what of
// an agent holds for a text request.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct AgentProfileTests {
    private static let key = "sk-key-0123456789abcdef"

    private func profile(
        _ name: String = "desk", sessions: Int? = nil, clientFields: Set<ClientField>? = nil
    ) -> AgentProfile {
        var update = SessionUpdate()
        update.instructions = .value("You are \(name).")
        update.tools = .value([FunctionTool(name: "find")])
        update.maxOutputTokens = .value(50)
        var settings = SessionAgent.Settings()
        settings.greeting = Phrase("Good morning.") ?? .none
        settings.clientFields = clientFields ?? settings.clientFields
        return AgentProfile(
            name: name, model: "small", updates: [update], settings: settings,
            maxSessions: sessions)
    }

    private func makeServer(
        _ profiles: [AgentProfile], standard: String? = nil, keys line: String? = nil,
        model: any LanguageModel = SilentModel(), log: LogRecord = LogRecord()
    ) throws -> SimulatedServer {
        var keys = APIKeys()
        if let line {
            let text = "\(Self.key) \(line)\n"
            try keys.add(
                ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        }
        return try SimulatedServer(
            agents: AgentSet(model: model), log: log, credentials: CredentialRules(keys: keys)
        ) { $0.profiles = AgentDirectory(AgentProfiles(profiles, standard: standard)) }
    }

    private func open(_ server: SimulatedServer, _ target: String) -> SimulatedClient {
        let client = server.openClient(target)
        #expect(server.run())
        return client
    }

    private func ask(
        _ server: SimulatedServer, _ target: String, _ extra: String = "", key: Bool = false
    ) throws -> HTTPResponse {
        let messages =
            #"[{"role":"system","content":"Obey."},{"role":"user","content":"Hi"}]"#
        let peer = server.connect()
        peer.send(
            TextWorld.post(
                target, #"{"model":"large","messages":\#(messages)\#(extra)}"#,
                fields: key ? "Authorization: Bearer \(Self.key)\r\n" : ""))
        #expect(server.run(for: .seconds(1)))
        return try #require(try parseResponses(peer.receive(), answering: [.post]).0.first)
    }

    // MARK: Sessions at one time

    @Test func anAgentHasItsSessionsAndGivesTheirPlacesBack() throws {
        let log = LogRecord()
        let server = try makeServer([profile(sessions: 2), profile("other")], log: log)
        let clients = (0..<3).map { _ in open(server, "/v1/realtime?agent=desk") }
        #expect(clients.map(\.isOpen) == [true, true, false])
        let refused = try #require(clients[2].answer)
        #expect(refused.status == 429 && refused.fields["Retry-After"] == "5")
        #expect(text(refused).contains(#""code":"rate_limit_exceeded""#))
        #expect(text(refused).contains("This agent has all the sessions that it may have."))
        #expect(try ask(server, "/v1/agents/desk/chat/completions").status == 429)
        #expect(server.metrics.total(of: .refusedAgentSessions) == 2)
        let lines = log.lines.filter { $0.contains("sessions of an agent") }
        #expect(lines.count == 1, "more within ten seconds are counted")
        #expect(lines.first?.contains("agent=desk") == true)
        #expect(open(server, "/v1/realtime?agent=other").isOpen)
        #expect(open(server, "/v1/realtime").isOpen)
        clients[0].close()
        #expect(server.run(for: .seconds(1)))
        #expect(open(server, "/v1/agents/desk/realtime").isOpen)
        server.shard.stop(.goingAway)
        #expect(server.run(for: .seconds(10)))
        #expect(server.authenticator.places.count == 0)
    }

    /// A refusal by the agent's limit gives the place of the key back.
    @Test func theKeysPlaceIsFreeAgainWhereTheAgentHasNone() throws {
        let server = try makeServer([profile(sessions: 1)], keys: "max-sessions=2")
        func open(_ target: String) -> SimulatedClient {
            let client = server.openClient(target, key: Self.key)
            #expect(server.run())
            return client
        }
        #expect(open("/v1/realtime?agent=desk").isOpen)
        #expect(open("/v1/realtime?agent=desk").answer?.status == 429)
        #expect(open("/v1/realtime").isOpen)
        #expect(open("/v1/realtime").answer?.status == 429)
        #expect(server.metrics.total(of: .refusedAgentSessions) == 1)
        #expect(server.metrics.total(of: .refusedCredentialSessions) == 1)
    }

    @Test func aLinesCallerIsRefusedLikewise() throws {
        var desk = profile(sessions: 1)
        desk.numbers = ["+49 30 555"]
        let log = LogRecord()
        let world = try CallWorld(log: log, profiles: [desk])
        let shape = SimulatedCarrier.Shape.twilio(#"{"to":"+4930555"}"#)
        let first = SimulatedCarrier(world.server, shape)
        #expect(first.client.isOpen && first.client.closeCode == nil)
        // The call names the agent only when it begins; the URL of a line does so before.
        #expect(SimulatedCarrier(world.server, shape).client.closeCode == 1008)
        #expect(
            log.lines.filter { $0.contains("call refused") } == [
                "warning call refused carrier=twilio code=limit_reached param=none"
            ])
        let named = world.server.openClient("/twilio?agent=desk", subprotocols: [])
        #expect(world.server.run())
        #expect(named.answer?.status == 429)
        #expect(SimulatedCarrier(world.server).client.closeCode == nil, "a call of no agent")
        #expect(world.server.metrics.total(of: .refusedAgentSessions) == 2)
    }

    // MARK: Text requests

    /// Who names the agent of a text request.
    @Test(arguments: [
        ("/v1/chat/completions?agent=desk", nil, nil),
        ("/v1/agents/desk/chat/completions", nil, nil),
        ("/v1/chat/completions", "agents=desk", nil),
        ("/v1/chat/completions", nil, "desk"),
    ])
    func anAgentAnswersATextRequest(target: String, keys: String?, standard: String?) throws {
        let model = ClosureModel(words: ["ok"])
        let server = try makeServer(
            [profile()], standard: standard, keys: keys, model: model)
        let answer = try ask(
            server, target,
            #","max_tokens":9,"tools":[{"type":"function","function":{"name":"pay"}}],"#
                + #""tool_choice":"required""#, key: keys != nil)
        #expect(answer.status == 200 && text(answer).contains(#""content":"ok""#))
        #expect(text(answer).contains(#""model":"small""#))
        let asked = try #require(model.requests.first)
        #expect(model.requests.count == 1, "nobody is greeted")
        #expect(asked.model == "small" && asked.instructions == "You are desk.")
        #expect(asked.messages == [.user("Hi")], "the system's message is the client's instruction")
        #expect(asked.tools.map(\.name) == ["find"] && asked.toolChoice == .auto)
        #expect(asked.maxOutputTokens == 50)
    }

    @Test func aClientChangesWhatTheAgentAllows() throws {
        let model = ClosureModel(words: ["ok"])
        let server = try makeServer(
            [profile(clientFields: [.instructions, .tools, .limits])], model: model)
        let tools = #","tools":[{"type":"function","function":{"name":"pay"}}]"#
        for extra in ["", tools + #","max_tokens":9,"tool_choice":"required""#] {
            #expect(try ask(server, "/v1/chat/completions?agent=desk", extra).status == 200)
        }
        #expect(model.requests.map(\.instructions) == ["", ""])
        for request in model.requests {
            #expect(request.messages == [.system("Obey."), .user("Hi")])
        }
        #expect(model.requests.map { $0.tools.map(\.name) } == [["find"], ["pay"]])
        #expect(model.requests.map(\.toolChoice) == [.auto, .required])
        #expect(model.requests.map(\.maxOutputTokens) == [50, 9])
        #expect(model.requests.map(\.model) == ["small", "small"])
    }

    /// A model's name is no agent's: providers may have a model of any name.
    @Test func theModelsNameMeansNoAgent() throws {
        let model = ClosureModel(words: ["ok"])
        let server = try makeServer([profile("large")], model: model)
        #expect(try ask(server, "/v1/chat/completions").status == 200)
        #expect(model.requests.map(\.model) == ["large"])
        #expect(model.requests.map(\.instructions) == [""])
    }

    @Test func anAgentThatIsNotThereOrNotAllowedIsRefused() throws {
        let server = try makeServer([profile(), profile("other")], keys: "agents=desk")
        for (name, status, code) in [
            ("nobody", 403, "agent_not_allowed"), ("other", 403, "agent_not_allowed"),
        ] {
            let answer = try ask(server, "/v1/chat/completions?agent=\(name)", key: true)
            #expect(answer.status == status && text(answer).contains(code))
        }
        let open = try makeServer([profile()])
        let answer = try ask(open, "/v1/agents/nobody/chat/completions")
        #expect(answer.status == 404 && text(answer).contains("agent_not_found"))
        #expect(open.metrics.textRequests.load(ordering: .relaxed) == 0)
    }
}
