// The sound of the embedded voices: each voice name sounds different, and the speed has its effect.
// The tests measure the sound: pitch by autocorrelation, speed by length. FliteSynthesizerTests
// checks that the speech is intelligible.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct FliteVoiceTableTests {
    private static let text = "The weather will be fine and warm all over the valley."

    /// The voices that the protocol names; each must sound like another person.
    private static let protocolNames = [
        "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx",
        "sage", "shimmer", "verse",
    ]

    private func samples(_ voice: String, speed: Double = 1) async throws -> [Int16] {
        let collected = Collected<SpeechChunk>()
        try await FliteSynthesizer().speak(
            SpeechRequest(text: Self.text, voice: voice, speed: speed), on: ScriptedAgentHost()
        ) { collected.append($0) }
        return collected.all.flatMap(\.samples)
    }

    /// The median pitch of a voice, in hertz.
    private func pitch(_ voice: String) async throws -> Double {
        let samples = try await samples(voice)
        // 8 kHz is enough for the pitch, and a quarter of the work.
        let slow = stride(from: 0, to: samples.count - 1, by: 2).map {
            Double(samples[$0]) + Double(samples[$0 + 1])
        }
        let pitches = stride(from: 0, to: slow.count - Self.window - Self.longest, by: 240)
            .compactMap { Self.pitch(of: slow, at: $0) }.sorted()
        try #require(pitches.count > 15, "\(voice) is hardly voiced")
        return pitches[pitches.count / 2]
    }

    /// 40 ms at 8 kHz, and the periods of 60 and 400 Hz.
    private static let window = 320
    private static let longest = 133
    private static let shortest = 20

    /// The pitch at a sample by normalised autocorrelation; nil where the sound has none.
    private static func pitch(of samples: [Double], at start: Int) -> Double? {
        samples.withUnsafeBufferPointer { samples in
            func product(_ left: Int, _ right: Int) -> Double {
                var sum = 0.0
                var index = start
                while index < start + window {
                    sum += samples[index + left] * samples[index + right]
                    index += 1
                }
                return sum
            }
            let energy = product(0, 0)
            guard energy > Double(window) * 600 * 600 else { return nil }
            let found = (shortest...longest).map {
                product(0, $0) / (energy * max(1, product($0, $0))).squareRoot()
            }
            guard let best = found.max(), best > 0.6 else { return nil }
            let peak = found.indices.dropFirst().dropLast().first {
                found[$0] >= 0.9 * best && found[$0] >= found[$0 - 1] && found[$0] >= found[$0 + 1]
            }
            guard let peak else { return nil }
            // A parabola through the peak and its neighbours gives a fraction of a sample.
            let (left, right) = (found[peak - 1], found[peak + 1])
            let shift = (left - right) / (2 * (left - 2 * found[peak] + right) - 1e-9)
            return 8_000 / (Double(peak + shortest) + shift)
        }
    }

    @Test func theProtocolsVoicesAllDiffer() throws {
        let choices = try Self.protocolNames.map { try #require(FliteVoiceTable.all[$0]) }
        #expect(Set(choices).count == Self.protocolNames.count)
        #expect(choices.contains(FliteVoiceTable.choice(named: "nobody knows this one")))
    }

    @Test func aSpeakersVoicesHaveThePitchesOfTheTable() async throws {
        for speaker in FliteSpeaker.allCases {
            let names = Self.protocolNames.filter { FliteVoiceTable.all[$0]?.speaker == speaker }
            #expect(!names.isEmpty)
            guard speaker != .rms else { continue }
            let own = try await pitch(["slt", "", "awb", "kal16"][speaker.rawValue])
            for name in names {
                let wanted = FliteVoiceTable.choice(named: name).pitch
                let heard = try await pitch(name) / own
                #expect(abs(heard / wanted - 1) < 0.04, "\(name): \(heard) instead of \(wanted)")
            }
        }
    }

    @Test func theSpeakersAreDifferentPeople() async throws {
        var pitches: [Double] = []
        var lengths: Set<Int> = []
        for name in ["slt", "rms", "awb", "kal16"] {
            pitches.append(try await pitch(name))
            lengths.insert(try await samples(name).count)
        }
        // One woman's voice, and three men's voices that differ in pace.
        #expect((150...230).contains(pitches[0]), "\(pitches)")
        #expect(pitches.dropFirst().allSatisfy { (75...145).contains($0) }, "\(pitches)")
        #expect(lengths.count == 4)
    }

    @Test(arguments: ["slt", "rms", "awb", "kal16"])
    func everySpeakerFollowsTheSpeed(voice: String) async throws {
        let usual = Double(try await samples(voice).count)
        for speed in [0.5, 0.8, 1.25, 1.5] {
            let stretched = Double(try await samples(voice, speed: speed).count) / usual
            #expect(abs(stretched * speed - 1) < 0.1, "\(speed): \(stretched) × the length")
        }
    }
}
