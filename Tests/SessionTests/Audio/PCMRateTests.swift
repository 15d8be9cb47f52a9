// Linear samples at each rate that clients may have: nothing is longer, louder or higher than it was, and
// what a rate cannot carry does not come back as something else.

import Codec
import Glibc
import TestMaterial
import Testing

@testable import Session

@Suite struct PCMRateTests {
    private static let formats = [
        AudioFormat.pcm8000, AudioFormat.pcm16000, AudioFormat.pcm, AudioFormat.pcm48000,
    ]
    /// Peak of the tones: far from both ends of 16 bits.
    private static let peak = 8_000.0

    /// A second of a sine.
    private static func tone(_ hertz: Double, at rate: SampleRate) -> [Int16] {
        (0..<rate.hertz).map {
            Int16(peak * sin(2 * .pi * hertz * Double($0) / Double(rate.hertz)))
        }
    }

    /// The level of the middle of a second, over that of a tone, in decibels, and its frequency by its
    /// zero crossings, in hertz.
    private func measured(
        _ bytes: [UInt8], at rate: SampleRate
    ) -> (seconds: Double, decibels: Double, hertz: Double) {
        let samples = stride(from: 0, to: bytes.count - 1, by: 2).map {
            Double(Int16(bitPattern: UInt16(bytes[$0]) | UInt16(bytes[$0 + 1]) << 8))
        }
        let middle = samples[samples.count / 4..<samples.count * 3 / 4]
        let power = middle.reduce(0) { $0 + $1 * $1 } / Double(middle.count)
        let crossings = zip(middle, middle.dropFirst()).count { ($0 < 0) != ($1 < 0) }
        let seconds = Double(middle.count) / Double(rate.hertz)
        let full = Self.peak * Self.peak / 2
        return (
            Double(samples.count) / Double(rate.hertz), 10 * log10(max(power, 1e-9) / full),
            Double(crossings) / 2 / seconds
        )
    }

    /// A client's second of a tone, as the session gives it back.
    private func heard(_ hertz: Double, _ format: AudioFormat) throws -> [UInt8] {
        let script = ScriptedSession {
            $0.inputFormat = format
            $0.turnDetection = nil
        }
        script.transcripts = [.success("hum")]
        let samples = Self.tone(hertz, at: format.sampleRate)
        let bytes = samples.flatMap {
            [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
        }
        script.append(bytes, at: 0)
        script.send(.inputAudioBufferCommit, at: 10)
        script.run(until: 1_000)
        #expect(script.samplesTranscribed == [16_000])
        let added = script.events.last { $0["type"] as? String == "conversation.item.added" }
        let id = try #require((added?["item"] as? [String: Any])?["id"] as? String)
        script.send(.conversationItemRetrieve(itemID: id), at: 1_100)
        script.run(until: 2_000)
        let item = script.events.last { $0["type"] as? String == "conversation.item.retrieved" }
        let content = (item?["item"] as? [String: Any])?["content"] as? [[String: Any]]
        let text = try #require(content?.first?["audio"] as? String)
        var writer = ByteWriter(capacity: 16)
        try Array(text.utf8).withUnsafeBytes { try Base64.decode($0, into: &writer) }
        return writer.copiedBytes
    }

    /// A second of a tone that the synthesiser makes at 24 kHz, as the client gets it.
    private func spoken(_ hertz: Double, _ format: AudioFormat) -> [UInt8] {
        let script = ScriptedSession {
            $0.outputFormat = format
            $0.outputTransport = .binary
        }
        script.replies = [.text("Hum.")]
        script.speech = { _ in
            [SpeechChunk(samples: Self.tone(hertz, at: .hz24000), rate: .hz24000)]
        }
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 5_000)
        #expect(script.violations == [] && script.audioPackets.allSatisfy { $0.format == format })
        // Positions count in the format's own samples.
        var position = 0
        for packet in script.audioPackets {
            #expect(packet.position == position)
            position += packet.payload.count / 2
        }
        return script.audioPackets.flatMap(\.payload)
    }

    @Test(arguments: formats)
    func whatIsHeardKeepsLengthLevelAndPitch(format: AudioFormat) throws {
        let (seconds, decibels, hertz) = measured(
            try heard(1_000, format), at: format.sampleRate)
        #expect(abs(seconds - 1) < 0.001)
        #expect(abs(decibels) < 1 && abs(hertz - 1_000) < 5)
    }

    @Test(arguments: formats)
    func whatIsSaidKeepsLengthLevelAndPitch(format: AudioFormat) {
        let (seconds, decibels, hertz) = measured(spoken(1_000, format), at: format.sampleRate)
        #expect(abs(seconds - 1) < 0.041, "frames of 20 ms")
        #expect(abs(decibels) < 1 && abs(hertz - 1_000) < 5)
    }

    /// 6 kHz cannot be said at 8 kHz, and must not become 2 kHz.
    @Test func whatARateCannotCarryIsSilent() throws {
        #expect(measured(spoken(6_000, .pcm8000), at: .hz8000).decibels < -60)
        #expect(abs(measured(spoken(6_000, .pcm16000), at: .hz16000).decibels) < 1)
        #expect(measured(try heard(12_000, .pcm48000), at: .hz48000).decibels < -60)
    }

    @Test func anotherRateIsRefusedByTheRatesThatThereAre() throws {
        for (rate, isGood) in [
            (8_000, true), (16_000, true), (24_000, true), (48_000, true), (44_100, false),
        ] {
            let script = ScriptedSession()
            script.send(
                #"""
                {"type":"session.update","session":{"type":"realtime","audio":{
                "input":{"format":{"type":"audio/pcm","rate":\#(rate)}},
                "output":{"format":{"type":"audio/pcm","rate":\#(rate)}}}}}
                """#, at: 0)
            script.run(until: 10)
            let updated = script.events.last { $0["type"] as? String == "session.updated" }
            #expect((updated != nil) == isGood)
            guard isGood else {
                let error = script.events.last?["error"] as? [String: Any]
                let message = error?["message"] as? String ?? ""
                #expect(message.contains("8000, 16000, 24000, 48000"))
                continue
            }
            let audio = (updated?["session"] as? [String: Any])?["audio"] as? [String: Any]
            for direction in ["input", "output"] {
                let format = (audio?[direction] as? [String: Any])?["format"] as? [String: Any]
                #expect(format?["rate"] as? Int == rate)
            }
        }
    }

    /// Another process goes on at the same rate.
    @Test func theRateIsSaved() throws {
        let script = ScriptedSession {
            $0.inputFormat = .pcm16000
            $0.outputFormat = .pcm48000
        }
        let saved = try script.save()
        #expect(saved.parameters.inputFormat == .pcm16000)
        #expect(saved.parameters.outputFormat == .pcm48000)
    }
}
