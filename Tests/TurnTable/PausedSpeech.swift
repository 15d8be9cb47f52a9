// Utterances with a pause in the middle: human recordings, cut between two words, and sentences
// that the embedded voice speaks in two parts. All samples are mono at 16 kHz.

import Agents
import Codec
import Foundation
import Session

/// An utterance in two parts, before and after a pause.
struct PausedSpeech: Sendable {
    /// The kind of speaker.
    enum Speaker: CaseIterable, Sendable { case human, embeddedVoice }

    /// The words before and after the pause, for the report.
    let words: String
    let speaker: Speaker
    /// Number of its recording. Even ones are used to choose parameters, odd ones to evaluate them.
    let recording: Int
    let before: [Int16]
    let after: [Int16]

    /// The whole utterance with the given pause, a short silence before it and a long one after it.
    func samples(pauseMilliseconds: Int) -> [Int16] {
        var quiet = SeededNoise()
        func room(_ milliseconds: Int) -> [Int16] {
            // About -70 dB, because recordings are never digital silence.
            (0..<16 * milliseconds).map { _ in Int16(8 * quiet.next()) }
        }
        return room(Self.leadMilliseconds) + before + room(pauseMilliseconds) + after
            + room(Self.tailMilliseconds)
    }

    /// Level of the speech, to which disturbances are scaled.
    var level: Float { SpeechMix.level(of: before + after) }

    /// Time at which speech resumes after the pause, in milliseconds.
    func resumption(pauseMilliseconds: Int) -> Int {
        Self.leadMilliseconds + before.count / 16 + pauseMilliseconds
    }

    /// Time at which the speech ends, in milliseconds.
    func end(pauseMilliseconds: Int) -> Int {
        resumption(pauseMilliseconds: pauseMilliseconds) + Self.withoutSilentEnd(after).count / 16
    }

    /// The samples up to the last 10 ms whose level is within 30 dB of the loudest.
    static func withoutSilentEnd(_ samples: [Int16]) -> [Int16] {
        let energies = stride(from: 0, to: samples.count - 160, by: 160).map { start in
            samples[start..<start + 160].reduce(0) { $0 + Int($1) * Int($1) }
        }
        let loudest = energies.max() ?? 0
        let last = energies.lastIndex { $0 * 1_000 >= loudest } ?? 0
        return Array(samples[..<min(samples.count, (last + 1) * 160)])
    }

    private static let leadMilliseconds = 400
    /// Longer than any turn detection waits.
    private static let tailMilliseconds = 8_500
}

extension PausedSpeech {
    /// Every cut of every recording.
    static func recordings() throws -> [PausedSpeech] {
        try HumanRecording.all.enumerated().flatMap { number, recording in
            let samples = try recording.samples()
            return recording.cuts.map { place in
                PausedSpeech(
                    words: place.words, speaker: .human, recording: number,
                    before: Array(samples[..<(16 * place.milliseconds)]),
                    after: Array(samples[(16 * place.milliseconds)...]))
            }
        }
    }

    /// Typical sentences of callers, with pauses where people think.
    private static let sentences = [
        ("I would like to book a table for", "four people on Friday."),
        ("Can you tell me", "what time you open tomorrow?"),
        ("Turn on the lights in the kitchen and", "in the living room."),
        ("My number is five five five", "one two three four."),
        ("Please set an alarm for", "seven thirty tomorrow."),
        ("What is the weather like in", "Paris this weekend?"),
        ("I want to cancel my order because", "it is too late."),
        ("Play some music by", "the Rolling Stones."),
        ("I need a new phone", "and a case for it."),
        ("Send a message to my", "sister that I am late."),
        ("I lost my card yesterday", "somewhere near the station."),
        ("We are going to Rome", "and then to Naples."),
        ("Could you move my appointment", "to Monday morning?"),
        ("The parcel arrived", "but the box was empty."),
        ("I ordered the blue one", "not the red one."),
        ("Is there a train", "that leaves after midnight?"),
    ]

    /// Those sentences, spoken by the embedded voice. The comma at the pause keeps its intonation
    /// open.
    static func synthesized(on host: ModelHost) async throws -> [PausedSpeech] {
        let voice = FliteSynthesizer()
        var found: [PausedSpeech] = []
        for (number, (before, after)) in sentences.enumerated() {
            let whole = try await samples(of: before + ", " + after, voice, host)
            let pause = longestSilence(in: whole)
            found.append(
                PausedSpeech(
                    words: before + " | " + after, speaker: .embeddedVoice, recording: number,
                    before: Array(whole[..<pause.lowerBound]),
                    after: Array(whole[pause.upperBound...])))
        }
        return found
    }

    /// Speech of a second person at the same time.
    static let secondVoice: [Int16] = {
        let path = "librivox/sense_and_sensibility_01_austen_64kb-0870.wav"
        let recording = HumanRecording.all.first { $0.path.hasSuffix(path) }
        return (try? recording?.samples()) ?? [0]
    }()

    /// The librivox recordings one after another: a reader who hardly pauses.
    static let continuousSpeech: [Int16] = HumanRecording.all
        .filter { $0.path.contains("librivox") }
        .flatMap { withoutSilentEnd((try? $0.samples()) ?? []) }

    private static func isLoud(_ sample: Int16) -> Bool { sample.magnitude > 200 }

    private static func longestSilence(in samples: [Int16]) -> Range<Int> {
        var longest = 0..<0
        var start = 0
        for (index, sample) in samples.enumerated() where isLoud(sample) {
            if index - start > longest.count { longest = start..<index }
            start = index + 1
        }
        return longest
    }

    /// Words that a voice says, without silence around them.
    static func samples(
        of text: String, _ voice: any SpeechSynthesizer, _ host: ModelHost, name: String = "marin"
    ) async throws -> [Int16] {
        let collected = CollectedSamples()
        try await voice.speak(SpeechRequest(text: text, voice: name), on: host) { chunk in
            await collected.append(chunk.samples, chunk.rate)
        }
        let samples = try await collected.resampled
        // The voice adds silence at both ends, which is removed; the trial inserts its own pause.
        let first = samples.firstIndex(where: isLoud) ?? 0
        let last = samples.lastIndex(where: isLoud) ?? samples.count - 1
        return Array(samples[first...last])
    }
}

private actor CollectedSamples {
    private var samples: [Int16] = []
    private var rate = SampleRate.hz16000

    func append(_ more: [Int16], _ rate: SampleRate) {
        samples += more
        self.rate = rate
    }

    /// The samples at 16 kHz.
    var resampled: [Int16] {
        get throws {
            guard rate != .hz16000 else { return samples }
            var resampler = try Resampler(from: rate, to: .hz16000)
            var output = [Int16](
                repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
            let count = samples.withUnsafeBufferPointer { input in
                output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
            }
            return Array(output[..<count])
        }
    }
}
