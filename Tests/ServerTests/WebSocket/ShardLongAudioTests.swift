// A long message of audio, beside everything else that a shard does: it is heard in shares of a
// tick, means what it means in one, and goes with its connection.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardLongAudioTests {
    /// How a client sends a minute of audio in one message.
    enum Form: CaseIterable {
        case binary, base64, compressedBinary, compressedBase64

        var isCompressed: Bool { self == .compressedBinary || self == .compressedBase64 }
        var isText: Bool { self == .base64 || self == .compressedBase64 }
    }

    /// Seconds of G.711 in the longest message, and shares of a tick in samples at 16 kHz.
    private static let seconds = 58
    private static let share = 16_000
    private static let leastShare = 1_600
    /// Samples that the resampler, and a share's last run, may add to a share.
    private static let rounding = 400

    private static func update(
        format: String = #"{"type":"audio/pcmu"}"#, turnDetection: String = "null"
    ) -> String {
        """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{
        "format":\(format),"turn_detection":\(turnDetection)}}}}
        """
    }

    private static func append(_ audio: [UInt8], id: String = "e1", more: String = "") -> String {
        let text = Base64.text(of: audio)
        return
            #"{"type":"input_audio_buffer.append","event_id":"\#(id)","audio":"\#(text)"\#(more)}"#
    }

    private func openServer(
        _ configuration: ServerConfiguration = ServerConfiguration(), clients: Int = 1,
        update: String = Self.update(), voiceActivityModel: VoiceActivityModel? = nil
    ) throws -> (SimulatedServer, [SimulatedClient]) {
        let server = try SimulatedServer(
            configuration: configuration, voiceActivityModel: voiceActivityModel)
        let clients = (0..<clients).map { _ in
            server.openClient(offer: PerMessageDeflateOffer())
        }
        #expect(server.run())
        for client in clients { client.send(update) }
        #expect(server.run())
        for client in clients { try #require(client.eventTypes.last == "session.updated") }
        return (server, clients)
    }

    private func send(_ audio: [UInt8], as form: Form, from client: SimulatedClient) {
        let payload = form.isText ? Array(Self.append(audio).utf8) : audio
        let opcode = form.isText ? WebSocketOpcode.text : .binary
        if form.isCompressed {
            client.sendCompressed(opcode, payload)
        } else {
            client.send(opcode, payload)
        }
    }

    private func samplesIn(_ server: SimulatedServer) -> Int {
        server.metrics.total(of: \.samplesIn)
    }

    /// Turns until some of the audio is heard, but not all of it.
    private func runIntoTheMiddle(_ server: SimulatedServer) throws {
        for _ in 0..<100 where samplesIn(server) < 3 * Self.share {
            #expect(server.shard.tick())
        }
        try #require((3 * Self.share..<10 * Self.share).contains(samplesIn(server)))
    }

    // MARK: The others

    @Test(arguments: Form.allCases)
    func anotherSessionIsAnsweredBetweenTheSharesOfALongMessage(form: Form) throws {
        let (server, clients) = try openServer(clients: 2)
        let (client, other) = (clients[0], clients[1])
        // Silence would be inflated no further than a bomb, full noise cannot be deflated.
        var noise = SeededGenerator(seed: 1)
        let audio = (0..<8_000 * Self.seconds).map { _ in UInt8.random(in: 0..<64, using: &noise) }
        send(audio, as: form, from: client)
        client.send(#"{"type":"input_audio_buffer.commit"}"#)
        var heard = 0
        var answers = 0
        while heard < (Self.seconds - 1) * Self.share {
            try #require(answers < 200, "audio was lost")
            other.send(#"{"type":"input_audio_buffer.clear"}"#)
            #expect(server.shard.tick())
            client.poll()
            other.poll()
            answers += 1
            let cleared = other.eventTypes.count { $0 == "input_audio_buffer.cleared" }
            #expect(cleared == answers, "the other's turn came at once")
            #expect(samplesIn(server) - heard <= Self.share + Self.rounding)
            heard = samplesIn(server)
            if heard < (Self.seconds - 2) * Self.share {
                #expect(client.eventTypes.last == "session.updated", "a commit overtook its audio")
            }
        }
        #expect(server.run())
        #expect(client.eventTypes.contains("input_audio_buffer.committed"))
        #expect(!client.eventTypes.contains("error"))
        let expected = Self.seconds * Self.share
        #expect((expected - Self.rounding...expected).contains(samplesIn(server)))
    }

    /// The tick's time is for all of them, but for a little each.
    @Test func manyLongMessagesShareATick() throws {
        let (server, clients) = try openServer(clients: 12)
        for client in clients {
            send([UInt8](repeating: 0xFE, count: 8_000 * 10), as: .binary, from: client)
        }
        let total = 12 * 10 * Self.share
        let most = Self.share + 12 * (Self.leastShare + Self.rounding)
        var heard = 0
        for _ in 0..<1_000 where heard < total - 12 * Self.rounding {
            #expect(server.shard.tick())
            #expect(samplesIn(server) - heard <= most)
            heard = samplesIn(server)
        }
        #expect((total - 12 * Self.rounding...total).contains(heard), "all of it was heard")
    }

    /// A client that streams in real time has its least share, however long others' messages are.
    @Test func aTickFullOfLongMessagesHoldsUpNoPacket() throws {
        let (server, clients) = try openServer(clients: 3)
        for client in clients.dropLast() {
            send([UInt8](repeating: 0xFE, count: 8_000 * Self.seconds), as: .binary, from: client)
        }
        try runIntoTheMiddle(server)
        for _ in 0..<4 { clients[2].send(.binary, [UInt8](repeating: 0xFE, count: 160)) }
        clients[2].send(.ping, [7])
        #expect(server.shard.tick())
        clients[2].poll()
        #expect(clients[2].messages.last == .pong([7]))
        #expect(server.run())
    }

    // MARK: What it means

    /// All events that a client gets, where long messages are heard at once and in shares.
    private func texts(
        audioPerTick: Duration, update: String, voiceActivityModel: VoiceActivityModel? = nil,
        _ send: (SimulatedClient) -> Void
    ) throws -> [String] {
        var configuration = ServerConfiguration()
        configuration.loop.maxAudioPerTick = audioPerTick
        let (server, clients) = try openServer(
            configuration, update: update, voiceActivityModel: voiceActivityModel)
        send(clients[0])
        #expect(server.run())
        return clients[0].texts
    }

    private func expectSame(
        update: String = Self.update(), voiceActivityModel: VoiceActivityModel? = nil,
        _ send: (SimulatedClient) -> Void
    ) throws -> [String] {
        let whole = try texts(
            audioPerTick: .seconds(60), update: update, voiceActivityModel: voiceActivityModel, send
        )
        for milliseconds in [100, 130, 1_000] {
            let cut = try texts(
                audioPerTick: .milliseconds(milliseconds), update: update,
                voiceActivityModel: voiceActivityModel, send)
            #expect(whole == cut, "\(milliseconds) ms a tick")
        }
        return whole
    }

    /// Two utterances in one message, in the same message in shares, and packet by packet.
    @Test(arguments: [false, true])
    func turnsAreTheSameHoweverTheAudioCame(reducesNoise: Bool) throws {
        let once = try SpeechRecording.goForward.packets(silenceMilliseconds: 2_000)
        let packets = once + once
        let reduction = reducesNoise ? #","noise_reduction":{"type":"near_field"}"# : ""
        let update = """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":{
            "turn_detection":{"type":"server_vad","create_response":false}\(reduction)}}}}
            """
        let model = try VoiceActivityModel.installed()
        let whole = try expectSame(update: update, voiceActivityModel: model) {
            $0.send(.binary, Array(packets.joined()))
        }
        let committed = whole.filter { $0.contains(#""input_audio_buffer.committed""#) }
        #expect(committed.count == 2)
        let single = try texts(
            audioPerTick: .seconds(1), update: update, voiceActivityModel: model
        ) { for packet in packets { $0.send(.binary, packet) } }
        #expect(single == whole)
    }

    @Test func aMessageThatIsRefusedIsRefusedAsAWhole() throws {
        let pcm = Self.update(format: #"{"type":"audio/pcm","rate":24000}"#)
        let commit = #"{"type":"input_audio_buffer.commit"}"#
        let odd = try expectSame(update: pcm) {
            $0.send(Self.append([UInt8](repeating: 0, count: 480_001), id: "odd"))
            $0.send(commit)
        }
        #expect(odd.contains { $0.contains(#""invalid_audio""#) && $0.contains(#""odd""#) })
        #expect(odd.contains { $0.contains("input_audio_buffer_commit_empty") })
        let long = try expectSame(update: pcm) {
            $0.send(Self.append([UInt8](repeating: 0, count: 48_000 * 61), id: "long"))
            $0.send(commit)
        }
        #expect(long.contains { $0.contains("input_audio_buffer_full") && $0.contains(#""long""#) })
        #expect(long.contains { $0.contains("input_audio_buffer_commit_empty") })
    }

    /// Audio that finds no room is reported once, behind the last of the message and under its id.
    @Test func aMessageThatFindsNoRoomIsToldSoOnce() throws {
        let full = try expectSame {
            $0.send(Self.append([UInt8](repeating: 0xFE, count: 8_000 * 40), id: "first"))
            $0.send(Self.append([UInt8](repeating: 0xFE, count: 8_000 * 40), id: "second"))
            $0.send(#"{"type":"input_audio_buffer.commit"}"#)
        }
        let errors = full.filter { $0.contains(#""type":"error""#) }
        #expect(errors.count == 1)
        #expect(errors.allSatisfy { $0.contains("_buffer_full") && $0.contains(#""second""#) })
        #expect(full.contains { $0.contains(#""input_audio_buffer.committed""#) })
    }

    /// A number that came before drops its message, all of it.
    @Test func aNumberedMessageIsHeardOnce() throws {
        var configuration = ServerConfiguration()
        configuration.loop.maxAudioPerTick = .milliseconds(500)
        let (server, clients) = try openServer(configuration)
        let audio = [UInt8](repeating: 0xFE, count: 8_000 * 10)
        for _ in 0..<3 { clients[0].send(Self.append(audio, more: #","sequence":7"#)) }
        #expect(server.run())
        let expected = 10 * Self.share
        #expect((expected - Self.rounding...expected).contains(samplesIn(server)))
    }

    // MARK: The end

    /// An end of a connection whose audio is not all heard.
    enum End: CaseIterable { case reset, stop, drain, close }

    @Test(arguments: End.allCases)
    func aConnectionThatEndsInTheMiddleLeavesNothing(end: End) throws {
        let (server, clients) = try openServer(clients: 1)
        let client = clients[0]
        client.send(.binary, [UInt8](repeating: 0xFE, count: 8_000 * Self.seconds))
        try runIntoTheMiddle(server)
        let token = try #require(server.shard.connections[slot: 0]).token
        let ledger = try #require(server.shard.ledger(ofConnection: token))
        #expect(ledger.inputAudio > 8_000 * Self.seconds, "the rest is charged")
        #expect(server.shard.isBalanced)
        switch end {
        case .reset: client.peer.reset()
        case .stop: server.shard.stop(.goingAway)
        case .drain: server.shard.drain(.zero)
        case .close: client.close()
        }
        // No time passes: nothing waits for a timeout.
        #expect(server.run())
        let heard = samplesIn(server)
        switch end {
        case .reset: #expect(heard < 10 * Self.share)
        case .stop:
            #expect(heard < 10 * Self.share)
            #expect(client.closeCode == 1001)
        case .drain: #expect(heard > (Self.seconds - 1) * Self.share)
        case .close:
            #expect(heard > (Self.seconds - 1) * Self.share, "the Close waits behind the audio")
            #expect(client.closeCode == 1000)
        }
        #expect(server.run(for: .seconds(60)))
        if end == .drain { #expect(client.closeCode == 1012) }
        #expect(server.io.openHandles == 0)
        #expect(server.shard.ledgerBytes == 0 && server.shard.isBalanced)
    }
}
