// Telephone calls through a real shard: a caller who speaks, is answered, interrupts and presses keys,
// behind simulated carriers of each protocol.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TelephoneCallTests {
    private let speech = Result { try SimulatedCarrier.packets(of: .goForward) }

    /// µ-law as the carrier's own coding.
    private func packets(_ shape: SimulatedCarrier.Shape) throws -> [[UInt8]] {
        let packets = try speech.get()
        guard shape.bytesPerMillisecond == 16 else { return packets }
        return packets.map { packet in
            var samples = ByteWriter(capacity: 320)
            packet.withUnsafeBytes { LineCoding.linear8.appendPlayed($0, to: &samples) }
            return samples.copiedBytes
        }
    }

    @Test(arguments: [
        (TelephoneCarrier.twilio, SimulatedCarrier.Shape.twilio), (.signalwire, .twilio),
        (.telnyx, .telnyx), (.plivo, .plivo), (.vobiz, .plivo), (.exotel, .exotel),
    ])
    func aSpokenTurnIsAnsweredAndPlayedToItsEnd(
        carrier: TelephoneCarrier, shape: SimulatedCarrier.Shape
    ) throws {
        let world = try CallWorld([carrier])
        let line = SimulatedCarrier(world.server, shape, path: "/\(carrier.rawValue)")
        try #require(line.client.isOpen)
        line.say(try packets(shape), silence: 7_000)
        #expect(world.agent.requests.count == 1)
        #expect(world.agent.requests[0].messages == [.user("go forward ten meters")])
        // 60 ms a character, in the line's own coding, and nothing is lost or repeated.
        let spoken = 60 * CallAgent.reply.count
        #expect(line.received.count == spoken * shape.bytesPerMillisecond)
        #expect(line.played == line.received)
        #expect(line.cleared.isEmpty)
        #expect(line.marks.last?.contains(":\(spoken):") == true)
        #expect(world.server.metrics.total(of: .callMarksPlayed) == line.marks.count)
        #expect(world.server.metrics.total(of: \.responsesCompleted) == 1)
        line.client.send(#"{"event":"stop"}"#)
        #expect(world.server.run(for: .seconds(1)))
        #expect(line.client.closeCode == 1000)
        #expect(world.server.metrics.total(of: .sessionsOpen) == 0)
        #expect(world.server.metrics.total(of: .callsOpen) == 0)
    }

    /// The carrier sends nothing after the speech, as some do in silence. The gap ends the turn.
    @Test(arguments: [300, 1_000])
    func aLineThatStopsSendingCountsAsSilence(gap: Int) throws {
        let world = try CallWorld { $0.session.audioGapMilliseconds = gap }
        let line = SimulatedCarrier(world.server)
        // The recording's words end at about 2.3 s.
        line.say(Array(try speech.get().prefix(115)))
        // The silence that ends a turn is 500 ms, of which the recording may have some.
        line.stopSending(for: max(gap, 400) - 60)
        #expect(world.agent.requests.isEmpty)
        line.stopSending(for: 300)
        #expect(world.agent.requests.map(\.messages) == [[.user("go forward ten meters")]])
        line.stopSending(for: 6_000)
        #expect(line.playedMilliseconds == 60 * CallAgent.reply.count)
        // The line sends again: the next turn is heard.
        line.say(try speech.get(), silence: 1_000)
        #expect(world.agent.requests.count == 2)
    }

    @Test(arguments: [
        (TelephoneCarrier.twilio, SimulatedCarrier.Shape.twilio), (.vobiz, .plivo),
    ])
    func theCallerInterruptsTheReply(
        carrier: TelephoneCarrier, shape: SimulatedCarrier.Shape
    ) throws {
        let world = try CallWorld([carrier])
        let line = SimulatedCarrier(world.server, shape, path: "/\(carrier.rawValue)")
        let packets = try speech.get()
        // The reply begins about 700 ms after the speech, and takes four seconds.
        line.say(packets, silence: 2_200)
        let heard = line.playedMilliseconds
        #expect(heard > 500)
        line.say(packets, silence: 600)
        #expect(!line.cleared.isEmpty)
        #expect(line.cleared.allSatisfy { $0 > 0 }, "a queue is cleared that has something")
        #expect(world.server.metrics.total(of: \.responsesCancelled) == 1)
        line.say([], silence: 6_000)
        #expect(world.agent.requests.count == 2)
        // The model is shown what was played, to a word or two.
        let shown = try #require(world.shownReply)
        #expect(CallAgent.reply.hasPrefix(shown))
        #expect(shown.count < CallAgent.reply.count)
        let firstReply = line.playedMilliseconds - 60 * CallAgent.reply.count
        #expect(abs(60 * shown.count - firstReply) < 700, "\(shown) after \(firstReply) ms")
        // Marks that came back because they were dropped count for nothing.
        let wasReturned = shape.returnsClearedMarks
        #expect((world.server.metrics.total(of: .callMarksCleared) > 0) == wasReturned)
    }

    /// Speech over the reply holds it, and has no words: the reply goes on from what was heard. The
    /// carrier's queue was dropped meanwhile.
    @Test func aFalseInterruptionLosesNothingOfTheReply() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(
            world.server,
            .twilio(
                #"{"turn_detection":"{\"type\":\"server_vad\","#
                    + #"\"interruption_needs_words\":true}"}"#))
        line.say(try speech.get(), silence: 2_200)
        world.agent.hears("")
        line.say(try speech.get(), silence: 8_000)
        #expect(!line.cleared.isEmpty)
        #expect(world.agent.requests.count == 1)
        #expect(world.server.metrics.total(of: \.falseInterruptions) > 0)
        #expect(world.server.metrics.total(of: \.responsesCompleted) == 1)
        // Nothing is lost, and at most what the network and a mark are late by is heard twice.
        let whole = 60 * CallAgent.reply.count
        #expect(line.playedMilliseconds >= whole, "\(line.playedMilliseconds) of \(whole)")
        #expect(line.playedMilliseconds <= whole + 200 * line.cleared.count)
    }

    @Test func mediaThatOvertakesOtherMediaIsHeardInItsPlace() throws {
        let world = try CallWorld([.telnyx])
        let line = SimulatedCarrier(world.server, .telnyx, path: "/telnyx", starts: false)
        line.client.send(SimulatedCarrier.Shape.telnyx.start)
        #expect(world.server.run())
        var packets = try speech.get()
        packets += [[UInt8]](repeating: [UInt8](repeating: 0xFF, count: 160), count: 100)
        // Each two neighbours change places.
        for first in stride(from: 1, to: packets.count - 1, by: 2) {
            for number in [first + 1, first] {
                line.client.send(
                    SimulatedCarrier.Shape.telnyx.media
                        .replacing("PAYLOAD", with: Base64.text(of: packets[number]))
                        .replacing("CHUNK", with: "\(number)"))
            }
            #expect(world.server.run(for: .milliseconds(40)))
        }
        #expect(world.agent.requests.count == 1)
        #expect(world.server.metrics.total(of: \.turns) == 1)
    }

    @Test func anIdleLineIsBalanced() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server, .twilio(#"{"dtmf":"item"}"#))
        #expect(world.server.run(for: .seconds(30)))
        #expect(line.client.isOpen)
        let token = try #require(world.server.shard.connections[slot: 0]?.token)
        #expect(try #require(world.server.shard.ledger(ofConnection: token)).session > 0)
        #expect(world.server.shard.isBalanced)
    }
}
