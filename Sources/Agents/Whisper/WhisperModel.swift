// A Whisper model in memory, run by the ONNX runtime: samples in, what the decoder reads of them out;
// tokens in, the odds of the next one out. WhisperRecognizer loads it; WhisperDecoding chooses tokens.
//
// The caches of both parts stay in the runtime's memory: a step of the decoder reads those that the
// step before has made.

import Session

/// A loaded model. Any thread; each call uses the thread that calls it.
final class WhisperModel: Sendable {
    /// The names of its files in their folder.
    enum Files {
        static let encoder = "encoder.onnx"
        static let decoder = "decoder.onnx"
        static let tokens = "tokens.txt"
        /// All of them.
        static let all = [encoder, decoder, tokens]
    }

    /// What was heard, as the decoder reads it. It takes about 1.2 MB a second with the base model.
    struct Sound: Sendable {
        fileprivate let caches: [ONNXTensor]
        /// The length of the speech.
        let seconds: Double
        /// Bytes of the caches.
        let bytes: Int
    }

    /// What the decoder knows of the tokens so far.
    struct Memory: Sendable {
        fileprivate let caches: [ONNXTensor]
    }

    /// One position of the encoder: two windows of its features.
    private static let samplesPerPosition = 320
    /// The silence behind the speech. Without it the model misses the end of the speech.
    private static let silence = 16_000
    private static let headWidth = 64
    /// The most samples that it hears, the silence included: 30 s.
    static let maxSamples = 480_000 - silence

    /// Its tokens.
    let vocabulary: WhisperVocabulary
    private let encoder: ONNXModel
    private let decoder: ONNXModel
    /// The names of the caches of each layer, without their kinds.
    private let layers: [String]

    /// Loads a model.
    /// - Throws: where the runtime refuses a file, or the tokens cannot be read.
    init(_ files: ModelFiles, runtime: ONNXRuntime) throws(ONNXError) {
        guard let vocabulary = WhisperVocabulary(path: files.path(Files.tokens)) else {
            throw ONNXError(message: "\(Files.tokens) are not the tokens of a Whisper model")
        }
        self.vocabulary = vocabulary
        encoder = try ONNXModel(path: files.path(Files.encoder), runtime: runtime)
        decoder = try ONNXModel(path: files.path(Files.decoder), runtime: runtime)
        layers = (0..<vocabulary.layers).flatMap { ["k\($0)", "v\($0)"] }
    }

    /// Hears an utterance.
    /// - Parameter samples: mono at 16 kHz, at most `maxSamples`.
    func hear(
        _ samples: ArraySlice<Int16>, until interruption: ONNXInterruption
    ) throws(ONNXError) -> Sound {
        let heard = samples.prefix(Self.maxSamples)
        let positions = (heard.count + Self.silence - 1) / Self.samplesPerPosition + 1
        var audio = heard.map { Float($0) / 32_768 }
        audio += repeatElement(0, count: positions * Self.samplesPerPosition - audio.count)
        let input = try ONNXTensor(audio, shape: [1, audio.count], encoder.runtime)
        let caches = try encoder.run(
            [("audio", input)], outputs: layers.map { "cross_\($0)" }, until: interruption)
        let bytes = layers.count * vocabulary.heads * Self.headWidth * positions * 4
        return Sound(caches: caches, seconds: Double(heard.count) / 16_000, bytes: bytes)
    }

    /// The decoder before its first token.
    func begin() throws(ONNXError) -> Memory {
        let none = try ONNXTensor(
            [Float](), shape: [1, vocabulary.heads, 0, Self.headWidth], decoder.runtime)
        return Memory(caches: layers.map { _ in none })
    }

    /// Reads tokens.
    /// - Parameter use: gets the odds of the next one (logits), one for each token of the vocabulary.
    func read<Result>(
        _ tokens: [Int], of sound: Sound, _ memory: inout Memory,
        until interruption: ONNXInterruption,
        use: (UnsafeBufferPointer<Float>) -> Result
    ) throws(ONNXError) -> Result {
        let numbers = tokens.map(Int64.init)
        var inputs = [
            ("tokens", try ONNXTensor(numbers, shape: [1, numbers.count], decoder.runtime))
        ]
        for (index, layer) in layers.enumerated() {
            inputs.append(("past_\(layer)", memory.caches[index]))
            inputs.append(("cross_\(layer)", sound.caches[index]))
        }
        let outputs = try decoder.run(
            inputs, outputs: ["logits"] + layers.map { "present_\($0)" }, until: interruption)
        memory = Memory(caches: Array(outputs.dropFirst()))
        let result = try outputs[0].withFloats { $0.count == vocabulary.count ? use($0) : nil }
        guard let result else { throw ONNXError(message: "the tokens are of another model") }
        return result
    }
}
