// How the end of speech sounds: a made-up voice whose pitch and loudness are known, and what
// `semantic_vad` makes of a real one.

import Codec
import Glibc
import TestMaterial
import Testing

@testable import Session

/// A voice of ten harmonics, then silence with a little noise.
private struct MadeUpVoice {
    var milliseconds = 1_000
    /// At the beginning and, reached over the last 300 ms, at the end.
    var pitch: (from: Float, to: Float) = (120, 120)
    /// How long it takes to fade by 20 dB at the end.
    var fadeMilliseconds = 0
    var loudness: Float = 3_000
    var noise: Float = 5
    var silence = Prosody.silenceSamples

    func prosody() -> Prosody? {
        let spoken = 16 * milliseconds
        var state: UInt64 = 1
        var phase: Float = 0
        let samples = (0..<spoken + silence).map { index -> Int16 in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let hiss = noise * Float(Int32(truncatingIfNeeded: state >> 32)) / 2_147_483_648
            guard index < spoken else { return Int16(hiss) }
            let left = Float(spoken - index) / 16
            let turned = max(0, min(1, 1 - left / 300))
            phase += (pitch.from + (pitch.to - pitch.from) * turned) / 16_000
            phase -= phase.rounded(.down)
            let wave = (1...10).reduce(Float(0)) { $0 + sin(2 * .pi * Float($1) * phase) / 5 }
            let fade = min(1, left / Float(max(1, fadeMilliseconds)))
            return Int16(loudness * pow(10, fade - 1) * wave + hiss)
        }
        let first = max(0, samples.count - silence - Prosody.maxSamples)
        return samples[first...].withUnsafeBufferPointer {
            Prosody.measure($0, silence: silence)
        }
    }
}

@Suite struct ProsodyTests {
    @Test(arguments: [
        (Float(120), Float(120), Float(0)), (120, 90, -5), (120, 150, 4), (220, 180, -3.5),
    ])
    func aFallIsMeasuredInSemitones(from: Float, to: Float, semitones: Float) throws {
        let found = try #require(MadeUpVoice(pitch: (from, to)).prosody())
        // The end is the median of the last 60 ms, a tenth of the way back.
        #expect(abs(found.fall - semitones) < 1, "\(found)")
    }

    @Test func aVoiceThatStopsInFullSwingHasNoFadeAndOneThatDiesAwayHas() throws {
        let abrupt = try #require(MadeUpVoice().prosody())
        #expect(abrupt.fade <= 20 && abrupt.breath <= 40)
        let fading = try #require(MadeUpVoice(fadeMilliseconds: 400).prosody())
        #expect((150...260).contains(fading.fade), "\(fading)")
    }

    @Test func whatRunsDownSoundsMoreFinalThanWhatStops() throws {
        let final = try #require(
            MadeUpVoice(pitch: (120, 90), fadeMilliseconds: 400).prosody()?.finality)
        let level = try #require(MadeUpVoice(pitch: (120, 125)).prosody()?.finality)
        #expect(final > 0 && level < 0)
    }

    @Test(arguments: [Float(100), 1_000, 10_000])
    func itDoesNotDependOnTheLoudness(loudness: Float) throws {
        let voice = MadeUpVoice(
            pitch: (120, 100), fadeMilliseconds: 200, loudness: loudness, noise: loudness / 500)
        let found = try #require(voice.prosody())
        #expect(abs(found.fall + 2.5) < 1 && (80...140).contains(found.fade), "\(found)")
    }

    @Test func noiseThatNothingStandsOutOfSaysNothing() {
        #expect(MadeUpVoice(loudness: 0, noise: 1_000).prosody() == nil)
        #expect(MadeUpVoice(loudness: 0, noise: 0).prosody() == nil)
        #expect(MadeUpVoice(milliseconds: 200).prosody() == nil)
        #expect(MadeUpVoice(silence: 160).prosody() == nil)
    }

    @Test func everySampleAtItsLimitIsMeasured() {
        for value in [Int16.min, .max] {
            let samples = [Int16](repeating: value, count: Prosody.maxSamples)
            let quiet = [Int16](repeating: 0, count: Prosody.silenceSamples)
            (samples + quiet).withUnsafeBufferPointer {
                #expect(Prosody.measure($0, silence: quiet.count)?.finality.isFinite != false)
            }
        }
    }
}

/// "go forward ten meters" is heard until 2,240 ms; its voice runs down.
@Suite struct ProsodyInTurnsTests {
    private func stop(
        _ mode: TurnDetectionParameters.Mode, hypotheses: Bool = false
    ) throws -> Int {
        let script = ScriptedSession(
            { $0.turnDetection = TurnDetectionParameters(mode: mode) },
            voiceActivity: .installed, makesHypotheses: hypotheses)
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 3_000), from: 0)
        script.run(until: 6_000)
        let stopped = script.transcript.first { $0.contains("speech_stopped") }
        return try #require(stopped.flatMap { Int($0.dropFirst().prefix(5)) })
    }

    @Test(arguments: [
        (TurnDetectionParameters.Eagerness.low, 1_968), (.medium, 984), (.high, 547),
    ])
    func withoutWordsItIsTheSoundThatDecides(
        eagerness: TurnDetectionParameters.Eagerness, unknown: Int
    ) throws {
        let wait = try stop(.semanticVAD(eagerness: eagerness)) - 2_240
        #expect(wait < unknown && wait >= unknown * 6 / 10)
    }

    @Test func serverVADDoesNotListenToIt() throws {
        #expect(try stop(.serverVAD(threshold: 0.5, silenceMilliseconds: 800)) == 3_020)
    }
}
