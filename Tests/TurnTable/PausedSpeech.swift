// Utterances with a pause in the middle: human recordings, cut between two words, and sentences
// that the embedded voice speaks in two parts. Everything is mono at 16 kHz.

import Agents
import Foundation
import Session

/// Somebody says one thing, pauses, and goes on: the samples of both parts.
struct PausedSpeech: Sendable {
    /// Who speaks.
    enum Speaker: CaseIterable, Sendable { case human, embeddedVoice }

    /// The words before and after the pause, for a reader.
    let words: String
    let speaker: Speaker
    let before: [Int16]
    let after: [Int16]

    /// The whole, with a pause of so many milliseconds, a breath of silence before and a long one
    /// after it.
    func samples(pauseMilliseconds: Int) -> [Int16] {
        var quiet = QuietRoom()
        return quiet.samples(16 * Self.leadMilliseconds) + before
            + quiet.samples(16 * pauseMilliseconds) + after
            + quiet.samples(16 * Self.tailMilliseconds)
    }

    /// Where the speech goes on after the pause, in milliseconds.
    func resumption(pauseMilliseconds: Int) -> Int {
        Self.leadMilliseconds + before.count / 16 + pauseMilliseconds
    }

    /// Where the speech ends, in milliseconds: after its last 10 ms within 30 dB of its loudest.
    func end(pauseMilliseconds: Int) -> Int {
        let energies = stride(from: 0, to: after.count - 160, by: 160).map { start in
            after[start..<start + 160].reduce(0) { $0 + Int($1) * Int($1) }
        }
        let loudest = energies.max() ?? 0
        let last = energies.lastIndex { $0 * 1_000 >= loudest } ?? 0
        return resumption(pauseMilliseconds: pauseMilliseconds) + (last + 1) * 10
    }

    private static let leadMilliseconds = 400
    /// Longer than any turn detection waits.
    private static let tailMilliseconds = 8_500
}

/// The noise of a quiet room, about -70 dB: nothing that is recorded is digital silence.
private struct QuietRoom {
    private var state: UInt64 = 0x9E37_79B9_7F4A_7C15

    mutating func samples(_ count: Int) -> [Int16] {
        (0..<count).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int16(truncatingIfNeeded: Int(state >> 60)) - 8
        }
    }
}

extension PausedSpeech {
    /// Debian's pocketsphinx-testdata, cut between words, in milliseconds. The places are dips of
    /// the level by 10 dB or more with whole words on both sides, as the embedded recogniser hears
    /// them.
    private static let cuts: [(file: String, [(milliseconds: Int, words: String)])] = [
        ("goforward.raw", [(1_155, "go forward | ten meters")]),
        ("numbers.raw", [(1_285, "thirty three | four six ninety two")]),
        (
            "librivox/sense_and_sensibility_01_austen_64kb-0870.wav",
            [
                (2_235, "… had then | leisure …"), (2_935, "… leisure to | consider …"),
                (3_975, "… consider how | much …"), (4_195, "… how much | there …"),
                (4_785, "… there might | be …"), (5_765, "… in his | power to do for them"),
                (6_185, "… power to | do for them"),
            ]
        ),
        (
            "librivox/sense_and_sensibility_01_austen_64kb-0880.wav",
            [
                (1_075, "he was not | an ill-disposed young man"),
                (2_065, "he was not an ill-disposed | young man"),
            ]
        ),
        (
            "librivox/sense_and_sensibility_01_austen_64kb-0890.wav",
            [
                (605, "unless | to be …"), (1_315, "unless to be rather | cold-hearted …"),
                (3_625, "… rather selfish | is to be ill-disposed"),
            ]
        ),
        (
            "librivox/sense_and_sensibility_01_austen_64kb-0920.wav",
            [
                (2_565, "… amiable woman | he might …"), (3_215, "… he might have | been made …"),
                (3_845, "… been made | still more respectable …"),
            ]
        ),
        ("cards/001.wav", [(495, "ten of | clubs")]),
        ("cards/003.wav", [(745, "seven of | clubs")]),
        ("cards/004.wav", [(795, "five | five")]),
        (
            "cards/005.wav",
            [
                (505, "eight of | spades …"), (1_145, "eight of spades | four of clubs …"),
                (2_165, "… four of clubs | seven of hearts"),
            ]
        ),
    ]

    /// Every cut of every recording.
    static func recordings() throws -> [PausedSpeech] {
        try cuts.flatMap { file, places in
            let path = "/usr/share/pocketsphinx/test/data/" + file
            guard let data = FileManager.default.contents(atPath: path) else {
                throw TurnTableFailure(
                    "\(path) is missing: apt-get install pocketsphinx-testdata")
            }
            // These WAV files all have the plain header of 44 bytes.
            let header = file.hasSuffix(".wav") ? 44 : 0
            let samples = stride(from: header, to: data.count - 1, by: 2).map {
                Int16(truncatingIfNeeded: Int(data[$0]) | Int(data[$0 + 1]) << 8)
            }
            return places.map { place in
                PausedSpeech(
                    words: place.words, speaker: .human,
                    before: Array(samples[..<(16 * place.milliseconds)]),
                    after: Array(samples[(16 * place.milliseconds)...]))
            }
        }
    }

    /// What callers say, with pauses where people think.
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
    ]

    /// Those sentences, spoken by the embedded voice in two parts.
    static func synthesized(on host: ModelHost) async throws -> [PausedSpeech] {
        let voice = FliteSynthesizer()
        var found: [PausedSpeech] = []
        for (before, after) in sentences {
            found.append(
                PausedSpeech(
                    words: before + " | " + after, speaker: .embeddedVoice,
                    before: try await samples(of: before, voice, host),
                    after: try await samples(of: after, voice, host)))
        }
        return found
    }

    private static func samples(
        of text: String, _ voice: FliteSynthesizer, _ host: ModelHost
    ) async throws -> [Int16] {
        let collected = CollectedSamples()
        try await voice.speak(SpeechRequest(text: text, voice: "marin"), on: host) { chunk in
            guard chunk.rate == .hz16000 else { throw TurnTableFailure("not 16 kHz") }
            await collected.append(chunk.samples)
        }
        let samples = await collected.samples
        // The voice begins and ends with silence of its own; the pause is ours.
        let isLoud = { (sample: Int16) in sample.magnitude > 200 }
        let first = samples.firstIndex(where: isLoud) ?? 0
        let last = samples.lastIndex(where: isLoud) ?? samples.count - 1
        return Array(samples[first...last])
    }
}

private actor CollectedSamples {
    var samples: [Int16] = []

    func append(_ more: [Int16]) { samples += more }
}
