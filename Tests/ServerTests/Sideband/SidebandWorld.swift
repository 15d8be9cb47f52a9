// Two shards of one server with a session on the first, and sidebands of it on either. The model
// calls the function that the user's last message names, and says a word otherwise.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Two shards with credentials, and shorthand for what tests do with them.
final class SidebandWorld {
    static let key = "sk-app-0123456789abcdef"
    static let otherKey = "sk-other-0123456789abcdef"
    static let operatorKey = "sk-operator-0123456789abcdef"

    let first: SimulatedServer
    let second: SimulatedServer
    let model: ClosureModel

    init(
        keys: String = "\(key) name=app\n\(otherKey)\n\(operatorKey) operator\n",
        log: LogRecord = LogRecord(),
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration()
        change(&configuration)
        var rules = APIKeys()
        if !keys.isEmpty {
            try rules.add(
                ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(keys.utf8)))
        }
        let credentials = CredentialRules(keys: rules)
        model = Self.makeModel()
        let agents = AgentSet(model: model)
        first = try SimulatedServer(
            configuration: configuration, agents: agents, seed: 1, log: log,
            credentials: credentials, shards: 2)
        second = try SimulatedServer(
            configuration: configuration, agents: agents, seed: 2, log: log,
            credentials: credentials, besides: first)
    }

    /// `call NAME`: says "One moment", and calls the function. `slowly NAME`: waits a second before
    /// the reply ends. `both NAME`: calls it, then `weather`.
    private static func makeModel() -> ClosureModel {
        ClosureModel { request, host, reply in
            guard case .user(let text)? = request.messages.last else {
                return try await reply(.text("Done."))
            }
            let words = text.split(separator: " ").map(String.init)
            guard words.count == 2 else { return try await reply(.text("Hello.")) }
            if words[0] == "call" { try await reply(.text("One moment.")) }
            try await reply(
                .functionCallStarted(callID: "call_private_of_the_model", name: words[1]))
            try await reply(.functionCallArguments(#"{"order":"#))
            try await reply(.functionCallArguments("7}"))
            if words[0] == "both" {
                try await reply(.functionCallStarted(callID: "call_2", name: "weather"))
                try await reply(.functionCallArguments("{}"))
            }
            if words[0] == "slowly" { try await host.sleep(for: .seconds(1)) }
        }
    }

    /// Runs both shards until neither has anything to do.
    func run(for duration: Duration = .zero) {
        #expect(first.run(for: duration))
        #expect(second.run(for: duration))
        for _ in 0..<4 {
            #expect(first.run())
            #expect(second.run())
        }
    }

    /// A client with a session of text on the first shard.
    func openClient(key: String? = SidebandWorld.key) -> SimulatedClient {
        let client = first.openClient(key: key)
        run()
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""output_modalities":["text"]}}"#)
        run()
        return client
    }

    /// The id of a client's session.
    func id(_ client: SimulatedClient) throws -> String {
        let text = try #require(client.texts.first)
        return try #require(try JSONParser().parse(text)["session"]?["id"]?.string)
    }

    /// A sideband of a client's session.
    func join(
        _ client: SimulatedClient, tools: String? = nil, key: String? = SidebandWorld.key,
        on server: SimulatedServer? = nil
    ) throws -> SimulatedClient {
        let query = tools.map { "&tools=\($0)" } ?? ""
        let sideband = (server ?? second).openClient(
            "/v1/realtime?call_id=\(try id(client))\(query)", key: key)
        run()
        return sideband
    }

    func say(_ text: String, _ client: SimulatedClient) {
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
        run()
    }

    /// Items of 10 kB each.
    func writeLongItems(_ count: Int, by sender: SimulatedClient) {
        let text = String(repeating: "x", count: 10_000)
        for _ in 0..<count {
            sender.send(
                #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                    + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
            run()
        }
    }

    /// `session.update` with these functions.
    func offer(_ names: String..., by sender: SimulatedClient) {
        let tools = names.map { #"{"type":"function","name":"\#($0)"}"# }
        sender.send(
            #"{"type":"session.update","session":{"type":"realtime","tools":["#
                + tools.joined(separator: ",") + "]}}")
        run()
    }

    func hangUp(
        _ id: String, key: String? = SidebandWorld.key, on server: SimulatedServer? = nil,
        from address: String = "127.0.0.1"
    ) throws -> HTTPResponse {
        let peer = (server ?? second).connect(from: address)
        let field = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        peer.send(
            "POST /v1/realtime/calls/\(id)/hangup HTTP/1.1\r\nHost: localhost\r\n\(field)"
                + "Content-Length: 0\r\n\r\n")
        run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        return try #require(responses.first, "no answer")
    }
}

extension SimulatedClient {
    /// The events of a type.
    func events(_ type: String) -> [String] {
        texts.filter { $0.contains(#""type":"\#(type)""#) }
    }

    /// The code of the error that refused its handshake.
    var refusal: String? {
        answer.flatMap { try? JSONParser().parse($0.body)["error"]?["code"]?.string } ?? nil
    }

    /// The names of the tools in the last session that it was shown.
    var toolNames: [String] {
        let session = texts.last { $0.contains(#""object":"realtime.session""#) }
        let tools = session.flatMap { try? JSONParser().parse($0)["session"]?["tools"]?.elements }
        return (tools ?? nil)?.compactMap { $0["name"]?.string } ?? []
    }

    /// Whether a text occurs in anything that it received.
    func hasSeen(_ text: String) -> Bool { texts.contains { $0.contains(text) } }
}
