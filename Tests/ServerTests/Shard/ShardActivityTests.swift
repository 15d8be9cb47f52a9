// Sessions whose audio arrives in one tick: their voice activity is computed together, and each of them
// gets what it would get alone.

import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardActivityTests {
    private static let update = """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{
        "turn_detection":{"type":"server_vad","create_response":false}}}}}
        """

    private func openServer(_ count: Int) throws -> (SimulatedServer, [SimulatedClient]) {
        let server = try SimulatedServer(voiceActivityModel: VoiceActivityModel.installed())
        let clients = (0..<count).map { _ in server.openClient() }
        #expect(server.run())
        for client in clients { client.send(Self.update) }
        #expect(server.run())
        return (server, clients)
    }

    /// The types of the events that a client gets, each with its time.
    private func timeline(_ client: SimulatedClient) -> [String] {
        zip(client.eventTypes, client.times).map { "\($1.nanoseconds / 1_000_000) \($0)" }
    }

    /// Each packet reaches all clients' sockets at the same time.
    private func speak(
        _ packets: [[UInt8]], by clients: [SimulatedClient], to server: SimulatedServer,
        before send: (Int) -> Void = { _ in }
    ) {
        for (index, packet) in packets.enumerated() {
            send(index)
            for client in clients where !client.peer.isEnded { client.send(.binary, packet) }
            #expect(server.run(for: .milliseconds(20)))
        }
    }

    @Test(arguments: [2, 4, 7])
    func sessionsOfOneTickHearWhatTheyHearAlone(count: Int) throws {
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        let (alone, one) = try openServer(1)
        speak(packets, by: one, to: alone)
        let expected = timeline(one[0])
        #expect(expected.contains { $0.contains("speech_started") })
        #expect(expected.contains { $0.contains("committed") })
        let (server, clients) = try openServer(count)
        speak(packets, by: clients, to: server)
        for client in clients { #expect(timeline(client) == expected) }
        #expect(!server.shard.sessionContext.activityBatch!.isOpen)
    }

    /// A client that sends its last packet with a Close, or more than one packet at once, leaves the others
    /// as they are.
    @Test func aSessionMayEndWhileItsWindowWaits() throws {
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        let (server, clients) = try openServer(4)
        speak(packets, by: clients, to: server) { index in
            guard index == 40 || index == 41 else { return }
            let client = clients[index - 40]
            client.send(.binary, packets[index])
            client.send(.binary, packets[index + 1])
            if index == 41 { client.close() } else { client.peer.reset() }
        }
        let (alone, one) = try openServer(1)
        speak(packets, by: one, to: alone)
        for client in clients.dropFirst(2) {
            #expect(timeline(client) == timeline(one[0]))
        }
        #expect(server.metrics.total(of: .sessionsOpen) == 2)
    }
}
