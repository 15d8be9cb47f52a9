// A protocol that no source of the server knows: its sessions have what all have.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

@Suite struct LineFrontTests {
    private static let key = "sk-line-0123456789abcdef"

    private func server(
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        change(&configuration)
        var rules = APIKeys()
        try rules.add(
            ConfiguredFile(
                option: "api-keys-file", path: "keys",
                bytes: Array("\(Self.key) quotas=turns=2/minute\n".utf8)))
        let model = ClosureModel { request, host, reply in
            guard case .user(let text)? = request.messages.last else { return }
            for word in text.split(separator: " ").reversed() {
                try await host.sleep(for: .milliseconds(100))
                try await reply(.text("\(word) "))
            }
        }
        return try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: model),
            credentials: CredentialRules(keys: rules)
        ) { $0.routes = [LineFront.route] }
    }

    private func open(_ server: SimulatedServer, key: String? = key) -> SimulatedClient {
        let client = server.openClient("/line", key: key)
        #expect(server.run())
        return client
    }

    @Test func aLineIsAnsweredByALine() throws {
        let server = try server()
        let client = open(server)
        client.send("one two three")
        #expect(server.run(for: .seconds(1)))
        #expect(client.texts == ["three two one "])
        #expect(server.shard.isBalanced)
        #expect(server.metrics.total(of: .sessionsOpen) == 1)
        client.close()
        #expect(server.run(for: .seconds(10)))
        #expect(server.metrics.total(of: .sessionsOpen) == 0)
        #expect(server.shard.clients.fronts.isEmpty && server.shard.ledgerBytes == 0)
    }

    @Test func aLineOfTheUserInterruptsTheReply() throws {
        let server = try server()
        let client = open(server)
        client.send("a b c d e f")
        #expect(server.run(for: .milliseconds(250)))
        client.send("one two")
        #expect(server.run(for: .seconds(2)))
        #expect(client.texts == ["f e ", "two one "])
    }

    @Test func itsCredentialAndItsQuotasCount() throws {
        let server = try server()
        #expect(open(server, key: nil).answer?.status == 401)
        let client = open(server)
        for line in ["one", "two", "three"] {
            client.send(line)
            #expect(server.run(for: .seconds(1)))
        }
        let lines = client.texts
        #expect(lines.count == 3 && lines.prefix(2) == ["one ", "two "])
        #expect(lines[2].contains("turns"), "\(lines[2])")
        client.send(.binary, [0xFF])
        #expect(server.run())
        #expect(client.closeCode == WebSocketCloseCode.unsupportedData.rawValue)
    }

    @Test func aRestartEndsItAsAnyOther() throws {
        let server = try server()
        let client = open(server)
        server.shard.drain(.zero)
        #expect(server.run(for: .seconds(20)))
        #expect(client.closeCode == WebSocketCloseCode.serviceRestart.rawValue)
    }
}
