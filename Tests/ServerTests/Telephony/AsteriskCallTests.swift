// Calls of Asterisk's media channel: control messages as JSON and as plain text, media as binary
// messages. The channel here is written from chan_websocket.c: it cuts media into frames, plays one
// each 20 ms, drops what is no whole frame unless media are buffered, drops marks with what is flushed,
// stays paused until it is told to go on, and ignores what it would ignore.

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
    private(set) var pauses = 0
    private(set) var isPaused = false
    private(set) var hasHungUp = false
    private var isBuffering = false
    private var leftover: [UInt8] = []

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
        guard !isPaused else { return }
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
                let all = leftover + media
                let whole = all.count - all.count % frameBytes
                for start in stride(from: 0, to: whole, by: frameBytes) {
                    queue.append(.frame(Array(all[start..<start + frameBytes])))
                }
                leftover = isBuffering ? Array(all[whole...]) : []
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
            leftover = []
            isBuffering = false
        case "START_MEDIA_BUFFERING": isBuffering = true
        case "PAUSE_MEDIA":
            #expect(!isPaused)
            pauses += 1
            isPaused = true
        case "CONTINUE_MEDIA":
            #expect(isPaused)
            isPaused = false
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
        channel.say(try speech.get())
        // It is held first, and flushed when the speech is certain to interrupt. A flush ends no
        // pause, so that the next reply would not be heard.
        #expect(channel.pauses == 1)
        #expect(channel.flushes == 1)
        #expect(!channel.isPaused)
        let first = channel.played.count
        channel.say([], silence: 6_000)
        // It may begin a little before the recording's silence is over.
        #expect(channel.played.count - first > 8 * (60 * CallAgent.reply.count - 100))
        let shown = try #require(world.shownReply)
        #expect(CallAgent.reply.hasPrefix(shown) && shown.count < CallAgent.reply.count)
        #expect(abs(60 * shown.count - first / 8) < 300, "\(shown) after \(first / 8) ms")
        // Its queue has no marks any more: none of them is late.
        #expect(world.server.metrics.total(of: .callMarksCleared) == 0)
    }

    /// Speech over the reply has no words: the channel's queue waits, and each sample is sent and
    /// heard once.
    @Test(arguments: [false, true])
    func aFalseInterruptionPausesTheQueue(isPlain: Bool) throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(world.server, isPlain: isPlain)
        channel.say(try speech.get(), silence: 2_200)
        world.needsWordsToInterrupt()
        world.agent.hears("")
        channel.say(try speech.get(), silence: 8_000)
        #expect(channel.pauses > 0)
        #expect(channel.flushes == 0 && !channel.isPaused)
        #expect(world.server.metrics.total(of: \.falseInterruptions) > 0)
        #expect(channel.played.count == 8 * 60 * CallAgent.reply.count)
        #expect(channel.received == channel.played)
        #expect(world.server.metrics.total(of: \.responsesCompleted) == 1)
        #expect(world.server.shard.isBalanced)
    }

    /// Media are sent in pieces of 100 ms, which are no whole frames of 40 ms.
    @Test func nothingOfAPartialFrameIsLost() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(
            world.server, isPlain: true, frameBytes: 320)
        let packets = try speech.get()
        channel.say(
            stride(from: 0, to: packets.count - 1, by: 2).map { packets[$0] + packets[$0 + 1] },
            silence: 6_500)
        let whole = 8 * 60 * CallAgent.reply.count
        #expect(channel.received.count == whole)
        #expect(channel.played.count > whole - 320)
        #expect(Array(channel.received.prefix(channel.played.count)) == channel.played)
    }

    @Test func aCallersOpusIsHeard() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(
            world.server, isPlain: false, format: "opus", frameBytes: 1)
        var encoder = try OpusEncoder(rate: .hz16000)
        var packet = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
        let samples = SpeechRecording.goForward.samples + [Int16](repeating: 0, count: 24_000)
        for start in stride(from: 0, to: samples.count - 319, by: 320) {
            let count = try samples[start..<start + 320].withUnsafeBufferPointer { samples in
                try packet.withUnsafeMutableBytes { try encoder.encode(samples, into: $0) }
            }
            channel.client.send(.binary, Array(packet[..<count]))
            #expect(world.server.run(for: .milliseconds(20)))
        }
        #expect(world.agent.requests.map(\.messages) == [[.user("go forward ten meters")]])
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

    /// A queue that is full gets nothing until it has room, whether a reply is in flight or begins
    /// meanwhile.
    @Test(arguments: [false, true])
    func aFullQueueGetsNothingMore(isFullBefore: Bool) throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(world.server, isPlain: false)
        if isFullBefore { channel.client.send(#"{"event":"MEDIA_XOFF","channel_id":"1.2"}"#) }
        channel.say(try speech.get(), silence: 1_800)
        if !isFullBefore {
            channel.client.send(#"{"event":"MEDIA_XOFF","channel_id":"1.2"}"#)
            channel.say([], silence: 20)
        }
        let sent = channel.received.count
        #expect((sent == 0) == isFullBefore)
        channel.say([], silence: 3_000)
        #expect(channel.received.count == sent)
        #expect(channel.played.count == sent)
        channel.client.send(#"{"event":"STATUS","channel_id":"1.2","queue_length":3}"#)
        channel.client.send(#"{"event":"MEDIA_XON","channel_id":"1.2"}"#)
        channel.say([], silence: 5_500)
        #expect(channel.played.count == 8 * 60 * CallAgent.reply.count)
        #expect(world.server.metrics.total(of: \.responsesCompleted) == 1)
    }

    /// A caller interrupts a reply of which the channel takes no more.
    @Test func aReplyThatWaitsForAFullQueueIsInterrupted() throws {
        let world = try CallWorld([.asterisk])
        let channel = SimulatedChannel(world.server, isPlain: true)
        channel.say(try speech.get(), silence: 1_800)
        channel.client.send("MEDIA_XOFF")
        channel.say(try speech.get(), silence: 1_500)
        #expect(world.server.metrics.total(of: \.responsesCancelled) == 1)
        #expect(world.agent.requests.count == 2)
        let played = channel.played.count
        channel.client.send("MEDIA_XON")
        channel.say([], silence: 6_000)
        #expect(channel.played.count - played == 8 * 60 * CallAgent.reply.count)
    }
}
