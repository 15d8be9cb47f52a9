// The natural voice in memory: a VITS model in two parts, which the ONNX runtime runs. The encoder
// makes frames of a clause, with a random part as people have one; the decoder makes sound of the
// frames. NaturalVoice loads it; NaturalSynthesizer streams its sound.

import Codec

/// The frames of a clause: `channels` numbers for each.
struct VoiceFrames: Sendable {
    /// Numbers of a frame.
    static let channels = 192

    /// One channel after another.
    let values: [Float]
    /// Frames.
    let count: Int
    /// Bytes of its memory.
    var bytes: Int { values.capacity * MemoryLayout<Float>.size }

    /// - Returns: nil where the values are no whole frames.
    init?(values: [Float]) {
        guard values.count.isMultiple(of: Self.channels) else { return nil }
        self.values = values
        count = values.count / Self.channels
    }

    /// Some of the frames, in the same order of channels.
    func part(_ range: Range<Int>) -> [Float] {
        var part: [Float] = []
        part.reserveCapacity(Self.channels * range.count)
        for channel in 0..<Self.channels {
            let start = channel * count
            part += values[(start + range.lowerBound)..<(start + range.upperBound)]
        }
        return part
    }
}

/// The loaded voice. Any thread; each call uses the thread that calls it.
final class NaturalVoiceModel: Sendable {
    /// The rate of its sound.
    static let rate = SampleRate(hertz: 22_050)
    /// Samples of a frame: 11.6 ms.
    static let frameSamples = 256
    /// The paths of its files in the models directory.
    enum Files {
        static let folder = "natural-voice"
        static let encoder = "encoder.onnx"
        static let decoder = "decoder.onnx"
        static let phonemes = "phonemes.txt"
        /// Those in the folder.
        static let own = [encoder, decoder, phonemes]
    }

    /// How much the sound and the lengths of phonemes vary at random: the values of the voice's
    /// training.
    private static let (soundVariation, lengthVariation): (Float, Float) = (0.667, 0.8)
    /// Louder by 3.5 dB, which is nearly as loud as the voice `cedar`: 0.077 instead of 0.085 of full
    /// scale. Peaks reach 0.97; the few beyond full scale are cut.
    private static let gain: Float = 1.5

    /// Frames of a clause, at most. 4,000: 46 s, more than twice what the longest clause takes. The
    /// lengths of phonemes are drawn at random, without a limit of their own.
    private static let maxFrames = 4_000

    /// The numbers of phonemes.
    let phonemes: PhonemeTable
    private let encoder: ONNXModel
    private let decoder: ONNXModel

    /// Loads the voice.
    init(directory: String, phonemes: PhonemeTable) throws(ONNXError) {
        let runtime = try ONNXRuntime(path: "\(directory)/\(ONNXRuntime.library)")
        let folder = "\(directory)/\(Files.folder)"
        self.phonemes = phonemes
        encoder = try ONNXModel(path: "\(folder)/\(Files.encoder)", runtime: runtime)
        decoder = try ONNXModel(path: "\(folder)/\(Files.decoder)", runtime: runtime)
    }

    /// Makes the frames of a clause.
    /// - Parameters:
    ///   - clause: from `PhonemeRules`.
    ///   - speed: 1 is the voice's own rate.
    func frames(of clause: String, speed: Double) throws(ONNXError) -> VoiceFrames {
        let numbers = phonemes.numbers(of: clause)
        let scales = [Self.soundVariation, Float(1 / speed), Self.lengthVariation]
        let runtime = encoder.runtime
        let values = try encoder.run(
            [
                ("input", try ONNXTensor(numbers, shape: [1, numbers.count], runtime)),
                ("input_lengths", try ONNXTensor([Int64(numbers.count)], shape: [1], runtime)),
                ("scales", try ONNXTensor(scales, shape: [3], runtime)),
            ], outputs: ["frames"])[0].floats()
        guard let frames = VoiceFrames(values: values), frames.count <= Self.maxFrames else {
            throw ONNXError(message: "the encoder made \(values.count) numbers")
        }
        return frames
    }

    /// Makes the sound of a window.
    func sound(of window: DecodingWindow, in frames: VoiceFrames) throws(ONNXError) -> [Int16] {
        let input = window.input
        let part = try ONNXTensor(
            frames.part(input), shape: [1, VoiceFrames.channels, input.count], decoder.runtime)
        let sound = try decoder.run([("frames", part)], outputs: ["output"])[0].floats()
        guard sound.count == input.count * Self.frameSamples else {
            throw ONNXError(message: "the decoder made \(sound.count) samples")
        }
        let start = (window.frames.lowerBound - input.lowerBound) * Self.frameSamples
        return sound[start..<(start + window.frames.count * Self.frameSamples)].map(Self.sample)
    }

    /// A sample in 16 bits; silence where it is not a number.
    private static func sample(_ value: Float) -> Int16 {
        guard !value.isNaN else { return 0 }
        return Int16(max(-1, min(1, value * gain)) * 32_767)
    }
}
