// Recordings of people from Debian packages, and the places in them where a pause may be inserted. A
// place is a dip in level of at least 10 dB. According to the embedded recogniser, whole words are on
// both sides of it.

import Codec
import Foundation

/// A recording of one person.
struct HumanRecording {
    let path: String
    /// Whether its rate is 48 kHz; the others have 16 kHz.
    var isFast = false
    let cuts: [(milliseconds: Int, words: String)]

    /// Its samples, at 16 kHz.
    func samples() throws -> [Int16] {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw TurnTableFailure(
                "\(path) is missing: apt-get install pocketsphinx-testdata alsa-utils")
        }
        // These WAV files all have the plain header of 44 bytes.
        let header = path.hasSuffix(".wav") ? 44 : 0
        let samples = stride(from: header, to: data.count - 1, by: 2).map {
            Int16(truncatingIfNeeded: Int(data[$0]) | Int(data[$0 + 1]) << 8)
        }
        guard isFast else { return samples }
        var resampler = try Resampler(from: .hz48000, to: .hz16000)
        var output = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        return Array(output[..<count])
    }

    static let all =
        sphinx.map { HumanRecording(path: sphinxFolder + $0.file, cuts: $0.cuts) }
        + alsa.map {
            HumanRecording(
                path: "/usr/share/sounds/alsa/\($0.file).wav", isFast: true,
                cuts: [($0.milliseconds, $0.words)])
        }

    private static let sphinxFolder = "/usr/share/pocketsphinx/test/data/"

    /// pocketsphinx-testdata: several speakers.
    private static let sphinx: [(file: String, cuts: [(milliseconds: Int, words: String)])] = [
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
        (
            "librivox/sense_and_sensibility_01_austen_64kb-0930.wav",
            [
                (1_095, "he might even | have been …"), (1_655, "… have been | made …"),
                (2_095, "… made amiable | himself"),
            ]
        ),
        ("something.raw", [(1_895, "go somewhere and | do something")]),
        ("tidigits/dhd.2934z.raw", [(675, "two | nine …"), (935, "two nine | three …")]),
        ("cards/001.wav", [(495, "ten of | clubs")]),
        ("cards/002.wav", [(785, "four | queen of clubs"), (1_215, "… queen of | clubs")]),
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

    /// alsa-utils: one speaker.
    private static let alsa: [(file: String, milliseconds: Int, words: String)] = [
        ("Front_Center", 700, "front | center"), ("Front_Left", 610, "front | left"),
        ("Front_Right", 695, "front | right"), ("Rear_Center", 635, "rear | center"),
        ("Rear_Left", 635, "rear | left"), ("Rear_Right", 750, "rear | right"),
        ("Side_Left", 745, "side | left"), ("Side_Right", 805, "side | right"),
    ]
}
