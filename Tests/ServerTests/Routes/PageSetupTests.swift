// What the conversation page is told before a session, and how a model of this machine is found
// without waiting for it.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

@Suite struct PageSetupTests {
    /// Answers every request with the same list of models.
    private final class ModelList: UpstreamClient {
        private final class Answer: UpstreamResponse {
            let status = 200
            private let chunks: Mutex<[[UInt8]]>

            init(_ body: String) { chunks = Mutex([Array(body.utf8)]) }

            func nextChunk() async throws -> [UInt8]? {
                chunks.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            }
        }

        private let body: String
        private let asked = Mutex<[String]>([])

        init(_ body: String) { self.body = body }

        /// The URLs that were asked.
        var urls: [String] { asked.withLock { $0 } }

        func send(
            _ request: UpstreamRequest, for owner: EventToken?
        ) async throws -> any UpstreamResponse {
            asked.withLock { $0.append(request.url) }
            return Answer(body)
        }

        func heldBytes(of owner: EventToken) -> Int { 0 }
        func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {}
        func handleTimer() {}
        func shutdown() {}
    }

    private func agents(
        _ page: PageAgents = PageAgents(kind: .guide, toolServers: ["parley"])
    ) -> AgentSet {
        var agents = AgentSet(model: SilentModel())
        agents.page = page
        return agents
    }

    private func get(
        from server: SimulatedServer, fields: String = "", address: String = "127.0.0.1"
    ) throws -> HTTPResponse {
        let peer = server.connect(from: address)
        peer.send("GET /page/setup.json HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
        server.run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        return try #require(responses.first, "no answer")
    }

    private func text(_ response: HTTPResponse) -> String {
        String(decoding: response.body, as: UTF8.self)
    }

    @Test func thePageIsToldWhatAnswers() throws {
        let response = try get(from: SimulatedServer(agents: agents()))
        #expect(response.status == 200 && response.fields["Cache-Control"] == "no-store")
        let common = #","voices":[],"languages":[],"administers":true,"tool_servers":"#
        #expect(text(response) == #"{"agent":"guide"\#(common)["parley"]}"#)
        let echo = try get(from: SimulatedServer(agents: agents(PageAgents())))
        #expect(text(echo) == #"{"agent":"echo"\#(common)[]}"#)
        var page = PageAgents(kind: .model)
        page.model = "small"
        page.voices = [PageVoice(name: "marin", description: "a woman"), PageVoice(name: "x")]
        page.languages = ["en", "fr"]
        let model = try get(from: SimulatedServer(agents: agents(page)))
        let voices =
            #"[{"name":"marin","description":"a woman"},{"name":"x","description":""}]"#
        #expect(
            text(model) == #"{"agent":"model","model":"small","voices":\#(voices),"#
                + #""languages":["en","fr"],"administers":true,"tool_servers":[]}"#)
    }

    /// Where keys are needed, the model's name and the way to `/admin` are for those who have one.
    @Test(arguments: [
        ("", false, false), ("sk-wrong-0123456789", false, false), (Self.key, true, false),
        (Self.operatorKey, true, true),
    ])
    func aKeyShowsWhatItsCallerMayUse(key: String, named: Bool, administers: Bool) throws {
        var page = PageAgents(kind: .model)
        page.model = "small"
        var keys = APIKeys()
        let lines = "\(Self.key)\n\(Self.operatorKey) operator\n"
        try keys.add(
            ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(lines.utf8)))
        let server = try SimulatedServer(
            agents: agents(page), credentials: CredentialRules(keys: keys))
        let fields = key.isEmpty ? "" : "Authorization: Bearer \(key)\r\n"
        let answer = try text(get(from: server, fields: fields))
        #expect(answer.contains(#""model":"small""#) == named)
        #expect(answer.contains(#""administers":\#(administers)"#))
    }

    private static let key = "sk-app-0123456789"
    private static let operatorKey = "sk-operator-0123456789"

    @Test func aModelOfThisMachineIsFoundByTheNextLook() throws {
        let list = ModelList(#"{"data":[{"id":"smollm2"},{"id":"other"}]}"#)
        let page = PageAgents(kind: .model, localModelURL: "http://127.0.0.1:8000/v1")
        let server = try SimulatedServer(agents: agents(page)) {
            $0.makeUpstream = { _, _ in list }
        }
        let begin =
            #"{"agent":"model","voices":[],"languages":[],"administers":true,"tool_servers":[],"#
            + #""local_model":{"url":"http://127.0.0.1:8000/v1","#
        let first = try text(get(from: server))
        #expect(first == begin + #""state":"unknown","is_used":false}}"#)
        let found = begin + #""state":"running","model":"smollm2","is_used":false}}"#
        let second = try text(get(from: server))
        let third = try text(get(from: server))
        #expect(second == found && third == found)
        #expect(list.urls == ["http://127.0.0.1:8000/v1/models"], "it is asked once in a while")
        server.run(for: LocalModelWatch.freshness)
        _ = try get(from: server)
        #expect(list.urls.count == 2)
    }

    @Test func aModelThatIsUsedIsNamed() throws {
        let page = PageAgents(
            kind: .model, localModelURL: "http://127.0.0.1:8000/v1", usesLocalModel: true)
        // A simulated shard has no HTTP client: the model does not answer.
        let server = try SimulatedServer(agents: agents(page))
        _ = try get(from: server)
        let second = try text(get(from: server))
        #expect(second.hasSuffix(#""state":"absent","is_used":true}}"#))
    }

    @Test(arguments: [("", "10.0.0.7"), ("Forwarded: for=10.0.0.7\r\n", "127.0.0.1")])
    func aClientElsewhereIsToldNothingOfThisMachine(fields: String, address: String) throws {
        let page = PageAgents(localModelURL: "http://127.0.0.1:8000/v1")
        let server = try SimulatedServer(agents: agents(page))
        let response = try get(from: server, fields: fields, address: address)
        #expect(
            text(response)
                == #"{"agent":"echo","voices":[],"languages":[],"administers":false,"tool_servers":[]}"#
        )
    }

    @Test(arguments: [
        (#"{"data":[{"id":"smollm2"}]}"#, LocalModelWatch.Finding.running(model: "smollm2")),
        (#"{"data":[]}"#, .absent), (#"{"data":[{"id":""}]}"#, .absent), ("<html>", .absent),
        (#"{"data":[{"id":7}]}"#, .absent), ("", .absent), ("[]", .absent),
        (
            #"{"data":[{"id":"Qwen/Qwen2.5-0.5B_q4:latest@a+b"}]}"#,
            .running(model: "Qwen/Qwen2.5-0.5B_q4:latest@a+b")
        ),
    ])
    func onlyAListOfModelsIsAModel(body: String, expected: LocalModelWatch.Finding) {
        #expect(LocalModelWatch.finding(in: Array(body.utf8)) == expected)
    }

    @Test func aLongNameIsNoName() {
        let name = String(repeating: "m", count: LocalModelWatch.maxNameBytes + 1)
        let body = Array(#"{"data":[{"id":"\#(name)"}]}"#.utf8)
        #expect(LocalModelWatch.finding(in: body) == .absent)
    }

    /// The page shows it in a command that users copy into a shell.
    @Test(arguments: [#"m\"; id"#, "m$(id)", "m`id`", "m id", "m'", "m\\nid", "é", "m&", "m|id"])
    func aNameThatAShellReadsOtherwiseIsNoName(name: String) {
        let body = Array(#"{"data":[{"id":"\#(name)"}]}"#.utf8)
        #expect(LocalModelWatch.finding(in: body) == .absent)
    }

    @Test func oneLookAsksAtATime() {
        let watch = LocalModelWatch()
        func look(_ milliseconds: Int) -> (LocalModelWatch.Finding, asks: Bool) {
            let found = watch.look(at: .milliseconds(milliseconds))
            return (found.finding, found.asks)
        }
        let first = look(0)
        let second = look(9_000)
        #expect(first.0 == .unknown && first.asks)
        #expect(second.0 == .unknown && !second.asks)
        watch.note(.absent, at: .milliseconds(9_000))
        let fresh = look(10_999)
        let old = look(11_000)
        #expect(fresh.0 == .absent && !fresh.asks)
        #expect(old.0 == .unknown && old.asks)
    }
}
