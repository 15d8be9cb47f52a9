// Calls of Asterisk's media channel: control messages as JSON and as plain text, media as binary
// messages. The channel here is written from chan_websocket.c: it cuts media into frames, plays one
// each 20 ms, drops marks with what is flushed, and ignores what it would ignore.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// The channel of Asterisk at the other end of a simulated connection.
private final class SimulatedChannel {
    private enum Queued {
        case frame([UInt8])
        case mark(String)
    }

    let server: SimulatedServer
    let client: SimulatedClient
    private let isPlain: Bool
    private let frameBytes: Int
    private var taken = 0
    private var queue: [Queued] = []
    private(set) var played: [UInt8] = []
    private(set) var received: [UInt8] = []
    private(set) var flushes = 0
    private(set) var hasHungUp = false

    /// - Parameter isPassedThrough: media are packets, which have no queue.
    init(
        _ server: SimulatedServer, isPlain: Bool, format: String = "ulaw", frameBytes: Int = 160,
        variables: String = "{}"
    ) {
        self.server = server
        self.isPlain = isPlain
        self.frameBytes = frameBytes
        client = server.openClient("/asterisk", subprotocols: ["media"])
        #expect(server.run())
        #expect(client.subprotocol == "media")
        client.send(
            isPlain
                ? "MEDIA_START connection_id:m1 channel:WebSocket/m1/0x1 channel_id:1.2 "
                    + "format:\(format) optimal_frame_size:\(frameBytes) ptime:20"
                : #"{"event":"MEDIA_START","connection_id":"m1","channel":"WebSocket/m1/0x1","#
                    + #""channel_id":"1.2","format":"\#(format)","#
                    + #""optimal_frame_size":\#(frameBytes),"ptime":20,"#
                    + #""channel_variables":\#(variables)}"#)
        #expect(server.run())
    }

    func say(_ packets: [[UInt8]], silence: Int = 0) {
        for packet in packets { pass(packet) }
        for _ in 0..<silence / 20 { pass([UInt8](repeating: 0xFF, count: frameBytes)) }
    }

    func press(_ digit: String) {
        client.send(
            isPlain
                ? "DTMF_END digit:\(digit) channel_id:1.2"
                : #"{"event":"DTMF_END","channel_id":"1.2","digit":"\#(digit)"}"#)
    }

    private func pass(_ packet: [UInt8]) {
        client.send(.binary, packet)
        #expect(server.run(for: .milliseconds(20)))
        takeMessages()
        while case .mark(let name)? = queue.first {
            queue.removeFirst()
            client.send(
                isPlain
                    ? "MEDIA_MARK_PROCESSED \(name)"
                    : #"{"event":"MEDIA_MARK_PROCESSED","channel_id":"1.2","#
                        + #""correlation_id":"\#(name)"}"#)
        }
        if case .frame(let frame)? = queue.first {
            played += frame
            queue.removeFirst()
        }
    }

    func takeMessages() {
        for message in client.messages[taken...] {
            switch message {
            case .binary(let media):
                received += media
                for start in stride(from: 0, to: media.count - frameBytes + 1, by: frameBytes) {
                    queue.append(.frame(Array(media[start..<start + frameBytes])))
                }
            case .text(let text) where text.utf8.count <= 128: obey(text)
            case .text(let text): Issue.record("a command that is too long: \(text)")
            default: break
            }
        }
        taken = client.messages.count
    }

    private func obey(_ text: String) {
        let json = isPlain ? nil : try? JSONParser().parse(text)
        let words = text.split(separator: " ")
        switch isPlain ? String(words[0]) : json?["command"]?.string ?? "" {
        case "MARK_MEDIA":
            queue.append(.mark(isPlain ? String(words[1]) : json?["correlation_id"]?.string ?? ""))
        case "FLUSH_MEDIA":
            flushes += 1
            queue = []
        case "HANGUP": hasHungUp = true
        default: Issue.record("an unknown command: \(text)")
        }
    }
}

@Suite struct AsteriskCallTests {
    private let speech = Result { try SimulatedCarrier.packets(of: .goForward) }

    @Test(arguments: [false, true])
    func aSpokenTurnIsAnsweredAndPlayedToItsEnd(isPlain: Bool) throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(world.server, isPlain: isPlain)
        channel.say(try speech.get(), silence: 7_000)
        #expect(world.agent.requests.map(\.messages) == [[.user("go forward ten meters")]])
        #expect(channel.played.count == 8 * 60 * CallAgent.reply.count)
        #expect(channel.played == channel.received)
        #expect(world.server.metrics.total(of: .callMarksPlayed) > 20)
    }

    @Test func linearMediaAreCompanded() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(
            world.server, isPlain: true, format: "slin", frameBytes: 320)
        let packets = try speech.get().map { packet in
            var samples = ByteWriter(capacity: 320)
            packet.withUnsafeBytes { LineCoding.linear8.appendPlayed($0, to: &samples) }
            return samples.copiedBytes
        }
        channel.say(packets, silence: 6_500)
        #expect(world.agent.requests.count == 1)
        #expect(channel.played.count == 16 * 60 * CallAgent.reply.count)
    }

    @Test(arguments: [false, true])
    func theCallerInterrupts(isPlain: Bool) throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(world.server, isPlain: isPlain)
        channel.say(try speech.get(), silence: 2_200)
        let played = channel.played.count
        #expect(played > 4_000)
        channel.say(try speech.get(), silence: 6_000)
        #expect(channel.flushes > 0)
        let shown = try #require(world.shownReply)
        #expect(CallAgent.reply.hasPrefix(shown) && shown.count < CallAgent.reply.count)
        // Its queue has no marks any more: none of them is late.
        #expect(world.server.metrics.total(of: .callMarksCleared) == 0)
    }

    @Test func variablesAndKeys() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(
            world.server, isPlain: false,
            variables: #"{"PARLEY_DTMF":"item","PARLEY_INSTRUCTIONS":"Be brief.","OTHER":"x"}"#)
        channel.press("4")
        channel.press("#")
        channel.say([], silence: 500)
        let request = try #require(world.agent.requests.first)
        #expect(request.messages == [.user("Keys pressed: 4#")])
        #expect(request.instructions == "Be brief.")
    }

    @Test(arguments: [false, true])
    func theServerHangsUp(isPlain: Bool) throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(world.server, isPlain: isPlain)
        world.server.shard.stop(.goingAway)
        #expect(world.server.run(for: .seconds(1)))
        channel.takeMessages()
        #expect(channel.hasHungUp)
        #expect(channel.client.closeCode == 1001)
    }

    /// Opus has no queue in Asterisk: nothing is marked or flushed.
    @Test func opusIsPassedThrough() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(
            world.server, isPlain: false, format: "opus", frameBytes: 1,
            variables: #"{"PARLEY_GREETING":"Greet."}"#)
        #expect(world.server.run(for: .seconds(6)))
        channel.takeMessages()
        let packets = channel.client.messages.filter {
            if case .binary = $0 { true } else { false }
        }
        #expect(packets.count == 3 * CallAgent.reply.count)
        #expect(channel.client.texts.isEmpty)
    }

    @Test func aFullQueueChangesNothing() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(
            world.server, isPlain: false, variables: #"{"PARLEY_GREETING":"Greet."}"#)
        channel.client.send(#"{"event":"MEDIA_XOFF","channel_id":"1.2"}"#)
        channel.client.send(#"{"event":"MEDIA_XON","channel_id":"1.2"}"#)
        channel.client.send(#"{"event":"STATUS","channel_id":"1.2","queue_length":3}"#)
        channel.say([], silence: 5_500)
        #expect(channel.played.count == 8 * 60 * CallAgent.reply.count)
    }
}
