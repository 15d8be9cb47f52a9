// The natural voice in memory: a model that makes spectra of a clause's phonemes, which the ONNX
// runtime runs, and the tables of its phonemes. VoiceSignal makes sound of the spectra. NaturalVoice
// loads it; NaturalSynthesizer streams its sound.

import CVoiceSignal
import Codec

/// The loaded voice. Any thread; each call uses the thread that calls it.
final class NaturalVoiceModel: Sendable {
    /// Its files.
    enum Files {
        static let folder = "natural-voice"
        static let model = "hibari.onnx"
        static let symbols = "symbols.txt"
        /// All of them, in the folder.
        static let all = [model, symbols] + Phonemizer.fileNames
    }

    /// Louder by 4.6 dB, which is as loud as flite's voices. Peaks reach 0.9; the few beyond full scale
    /// are cut.
    private static let gain: Float = 1.7
    /// Frames of a clause, at most. 4,000: 50 s, twice what 100 symbols take at the lowest speed.
    private static let maxFrames = 4_000
    private static let outputs = ["lh", "theta", "ln", "lr", "phi", "f0"]

    /// Makes the clauses that it speaks.
    let phonemizer: Phonemizer
    private let symbols: PhonemeSymbols
    private let model: ONNXModel

    /// Loads the model.
    init(
        path: String, phonemizer: Phonemizer, symbols: PhonemeSymbols, runtime: ONNXRuntime
    ) throws(ONNXError) {
        (self.phonemizer, self.symbols) = (phonemizer, symbols)
        model = try ONNXModel(path: path, runtime: runtime)
    }

    /// Speaks a clause of phonemes.
    /// - Parameters:
    ///   - speed: 1 is the voice's own rate.
    ///   - interruption: ends the model's run.
    ///   - deliver: receives runs of samples at 24 kHz, in multiples of 20 ms but for the last; returns
    ///     false to stop.
    func speak(
        _ clause: String, speed: Double, until interruption: ONNXInterruption? = nil,
        deliver: ([Int16]) -> Bool
    ) throws(ONNXError) {
        let spectra = try spectra(of: clause, speed: speed, until: interruption)
        guard var signal = try Self.signal(of: spectra) else { return }
        var trim = SilenceTrim(mark: clause.last)
        var samples: [Int16] = []
        let grain = NaturalVoiceTable.rate.samples(inMilliseconds: 20)
        while let window = signal.next() {
            samples += trim.append(window).map(Self.sample)
            let whole = samples.count - samples.count % grain
            guard whole > 0 else { continue }
            guard deliver(Array(samples[..<whole])) else { return }
            samples.removeFirst(whole)
        }
        samples += trim.finish().map(Self.sample)
        if !samples.isEmpty { _ = deliver(samples) }
    }

    /// What the model makes of a clause.
    func spectra(
        of clause: String, speed: Double, until interruption: ONNXInterruption? = nil
    ) throws(ONNXError) -> [ONNXTensor] {
        let numbers = symbols.numbers(of: clause)
        return try model.run(
            [
                ("ids", ONNXTensor(numbers, shape: [1, numbers.count], model.runtime)),
                ("speed", ONNXTensor([Float(speed)], shape: [1], model.runtime)),
            ], outputs: Self.outputs, until: interruption)
    }

    /// The sound of a model's outputs. Nil where they are shorter than 200 ms.
    static func signal(of spectra: [ONNXTensor]) throws(ONNXError) -> VoiceSignal? {
        let frames = try spectra[5].shape().last ?? 0
        guard frames <= maxFrames else {
            throw ONNXError(message: "the model made \(frames) frames")
        }
        // Their memory lives as long as the tensors, which the signal keeps.
        func values(_ index: Int) throws(ONNXError) -> UnsafePointer<Float>? {
            let count = (index < 5 ? Int(VOICE_BINS) : 1) * frames
            let values = try spectra[index].withFloats { $0 }
            guard values.count == count else {
                throw ONNXError(message: "the model made \(values.count) numbers")
            }
            return values.baseAddress
        }
        let clause = try voice_clause(
            lh: values(0), theta: values(1), ln: values(2), lr: values(3), phi: values(4),
            f0: values(5), frames: frames)
        return VoiceSignal(
            clause, of: spectra, random: .random(in: .min ... .max), by: .best)
    }

    /// A sample in 16 bits; silence where it is not a number.
    private static func sample(_ value: Float) -> Int16 {
        guard !value.isNaN else { return 0 }
        return Int16(max(-1, min(1, value * gain)) * 32_767)
    }
}
