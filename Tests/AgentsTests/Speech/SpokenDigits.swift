// Numbers as people dictate them: single digits that a person recorded, joined. The recordings are the
// prompts of a telephone exchange, from Debian's asterisk-core-sounds-en-wav.

import Codec
import Foundation
import TestMaterial

enum SpokenDigits {
    private static let folder = "/usr/share/asterisk/sounds/en_US_f_Allison/digits"
    /// Louder than the noise around a digit.
    private static let loud = 300

    /// The digits one after another, with 40 ms between two and half a second behind the last, at
    /// 16 kHz.
    /// - Parameter seed: of the noise of the room.
    static func samples(of number: String, seed: UInt64 = 3) throws -> [Int16] {
        var noise = SeededGenerator(seed: seed)
        func room(_ milliseconds: Int) -> [Int16] {
            (0..<16 * milliseconds).map { _ in Int16.random(in: -15...15, using: &noise) }
        }
        var samples = room(100)
        for digit in number { samples += try recording(of: digit) + room(40) }
        return samples + room(500)
    }

    /// One digit without the silence around it.
    private static func recording(of digit: Character) throws -> [Int16] {
        let path = "\(folder)/\(digit).wav"
        guard let data = FileManager.default.contents(atPath: path) else {
            fatalError("\(path) is missing: apt-get install asterisk-core-sounds-en-wav")
        }
        let file = try WAVFile(parsing: [UInt8](data))
        var resampler = try Resampler(from: file.rate, to: .hz16000)
        var output = [Int16](
            repeating: 0, count: resampler.maxOutputSamples(for: file.samples.count))
        let count = file.samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        let samples = output[..<count]
        let first = samples.firstIndex { abs(Int($0)) > loud } ?? 0
        let last = samples.lastIndex { abs(Int($0)) > loud } ?? 0
        return Array(samples[max(0, first - 270)..<min(count, last + 800)])
    }
}
