// Opus packets of a whole session: numbered in binary messages or in events, lost, late, corrupt;
// and what a session keeps when the user speaks no more.

import COpus
import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct NumberedPacketTests {
    private static func script(isNumbered: Bool = true) -> ScriptedSession {
        ScriptedSession {
            $0.inputFormat = .opus
            $0.inputIsNumbered = isNumbered
            $0.turnDetection = nil
        }
    }

    private static func packets() throws -> [[UInt8]] {
        try OpusSender().packets(of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
    }

    private static func errorCodes(_ script: ScriptedSession) -> [String] {
        script.events.compactMap { ($0["error"] as? [String: Any])?["code"] as? String }
    }

    @Test func lostPacketsLeaveNoHoleAndLateOnesAreDropped() throws {
        let packets = try Self.packets()
        var messages = numbered(packets, from: 65_500)
        messages.remove(at: 60)
        messages.swapAt(80, 81)
        messages.insert(messages[90], at: 91)
        let script = Self.script()
        script.speak(messages, from: 0)
        script.run(until: 4_000)
        let counters = script.context.counters
        #expect(counters.samplesIn == packets.count * 320)
        #expect(counters.packetsConcealed + counters.packetsRecovered == 2)
        #expect(counters.packetsLate == 2)
        #expect(Self.errorCodes(script) == [])
    }

    @Test func anEventMayCarryTheNumber() throws {
        let packets = try Self.packets()
        let script = Self.script(isNumbered: false)
        script.append(packets[0], sequence: 65_535, at: 0)
        script.append(packets[2], sequence: 1, at: 40)
        script.append(packets[2], sequence: 1, at: 50)
        script.run(until: 100)
        #expect(script.context.counters.samplesIn == 3 * 320)
        #expect(script.context.counters.packetsLate == 1)
    }

    @Test func corruptPacketsAreOneErrorAndAllCounted() throws {
        var packets = try Self.packets()
        for index in 50..<60 { packets[index] = [0xFF, 0xFF, 0xFF] }
        let script = Self.script()
        script.speak(numbered(packets), from: 0)
        script.run(until: 4_000)
        #expect(Self.errorCodes(script) == ["invalid_audio"])
        #expect(script.context.counters.decodeErrors == 10)
        #expect(script.context.counters.packetsConcealed == 10)
        #expect(script.context.counters.samplesIn == packets.count * 320)
    }

    @Test func aMessageWithoutANumberIsRefused() {
        let script = Self.script()
        script.speak([[7]], from: 0)
        script.run(until: 10)
        #expect(Self.errorCodes(script) == ["invalid_audio"])
        #expect(script.context.counters.samplesIn == 0)
    }

    @Test func anIdleSessionHoldsNoCodec() throws {
        let script = ScriptedSession {
            $0.inputFormat = .opus
            $0.outputFormat = .opus
            $0.turnDetection = nil
        }
        script.replies = [.text("Hello there.")]
        script.speak(try Self.packets(), from: 0)
        script.send(.responseCreate(ResponseParameters()), at: 1_000)
        script.run(until: 1_200)
        #expect(script.context.codecUse.decodersInUse == 1)
        #expect(script.context.codecUse.encodersInUse == 1)
        script.run(until: 7_700)
        #expect(script.context.codecUse.decodersInUse == 1)
        #expect(script.context.codecUse.encodersInUse == 0)
        script.run(until: 8_500)
        #expect(script.context.codecUse.decodersInUse == 0)
        #expect(script.context.codecUse.decodersPooled == 1)
        #expect(script.context.codecUse.encodersPooled == 1)
        #expect(script.session.nextDeadline(after: .milliseconds(8_500)) == nil)
        // Audio comes again: the same decoder, and nothing is lost.
        let before = script.context.counters.samplesIn
        script.speak(try Self.packets(), from: 9_000)
        script.run(until: 12_500)
        #expect(script.context.codecUse.decodersInUse == 1)
        #expect(script.context.codecUse.decodersPooled == 0)
        #expect(script.context.counters.samplesIn - before == (try Self.packets()).count * 320)
    }

    @Test func aSilentSessionDropsThePaddingThatNoSpeechFollowed() throws {
        let script = ScriptedSession(voiceActivity: .installed)
        let silence = [[UInt8]](repeating: [UInt8](repeating: 0, count: 960), count: 100)
        script.speak(silence, from: 0)
        script.run(until: 3_000)
        #expect(script.session.ledger.inputAudio > 1_000)
        #expect(script.session.ledger.codec > 3_000)
        script.run(until: 9_000)
        // No more than room in a list for what comes next.
        #expect(script.session.ledger.inputAudio < 200)
        #expect(script.session.ledger.codec == 0)
        #expect(script.context.codecUse.decodersInUse == 0)
    }

    @Test func thePoolIsBoundedAndASessionThatEndsGivesBack() throws {
        var settings = CodecSettings()
        settings.maxPooledCodecs = 2
        let context = SessionContext(
            voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true, codecs: settings)
        var parameters = SessionParameters(model: "test")
        parameters.inputFormat = .opus
        let packet = try Self.packets()[0]
        var sessions = (0..<4).map {
            VoiceSession(parameters: parameters, context: context, seed: UInt64($0))
        }
        for session in sessions {
            session.handleAudioPacket(packet.span.bytes, at: .milliseconds(0))
            while session.nextOutput() != nil {}
        }
        #expect(context.codecUse.decodersInUse == 4)
        sessions = []
        #expect(context.codecUse.decodersInUse == 0)
        #expect(context.codecUse.decodersPooled == 2)
    }
}
