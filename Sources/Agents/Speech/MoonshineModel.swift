// The Moonshine model in memory, run by the ONNX runtime: samples in, tokens out. scripts/
// moonshine_graphs.py makes its two graphs. MoonshineRecognizer decides when to load it, cuts long
// utterances, and uses the worker pool; MoonshineVocabulary makes text of tokens.
//
// The encoder hears all of the audio at once. The decoder says one token after another, each the most
// probable one behind those before it. Tokens that are expected are checked together, in one run: the
// result is the same, and a run of 20 tokens costs as much as 5 runs of one.
//
// Invariant: between two decodes the process keeps the weights in memory and nothing of the last
// encoding.

import Session

/// A loaded model. Its methods may run on several threads at once; each run uses one thread.
final class MoonshineModel: Sendable {
    /// The names of its files in their folder.
    enum Files {
        static let encoder = "encoder.onnx"
        static let decoder = "decoder.onnx"
        static let tokens = "tokens.txt"
        /// All of them.
        static let all = [encoder, decoder, tokens]
    }

    /// Resident bytes of the loaded model between decodes: the weights in the ONNX runtime's layout,
    /// and its library (27 MB), which all models of a process share (LoadTests/results/memory.md,
    /// "Memory of the recogniser").
    static let loadedBytes = 120_000_000

    /// Additional bytes during one decode of the longest segment that `MoonshineRecognizer` makes.
    /// 30 MB were measured for 15 s; they grow with the square of the length.
    static let decodeBytes = 40_000_000

    /// Tokens a second of audio, at most; people say 3 to 5. A decode that repeats itself ends there.
    private static let tokensPerSecond = 6
    private static let (begin, end): (Int64, Int64) = (1, 2)
    private static let (layers, heads, headSize) = (8, 8, 52)
    private static let crossNames = names("cross")
    private static let pastNames = names("past")
    private static let newNames = names("new")

    private let encoder: ONNXModel
    private let decoder: ONNXModel
    private let vocabulary: MoonshineVocabulary
    /// What the decoder attends to before the first token.
    private let noTokens: [ONNXTensor]

    /// Loads a model.
    /// - Throws: where the runtime refuses a file, or the tokens cannot be read.
    init(folder: String, runtime: ONNXRuntime) throws(ONNXError) {
        guard let vocabulary = MoonshineVocabulary(path: "\(folder)/\(Files.tokens)") else {
            throw ONNXError(message: "the tokens cannot be read")
        }
        self.vocabulary = vocabulary
        // The encoder's memory grows with the square of the audio, the decoder's hardly at all.
        encoder = try ONNXModel(
            path: "\(folder)/\(Files.encoder)", runtime: runtime, keepsMemory: false)
        decoder = try ONNXModel(path: "\(folder)/\(Files.decoder)", runtime: runtime)
        let empty = try ONNXTensor(
            [Float](), shape: [1, Self.heads, 0, Self.headSize], runtime)
        noTokens = Self.pastNames.map { _ in empty }
    }

    /// The tokens of samples at 16 kHz, at most 30 s of them, the longest that the model was trained
    /// on.
    /// - Parameters:
    ///   - expected: the tokens of a beginning of these samples, if they are known. They save
    ///     time where they are right, and change nothing.
    ///   - interruption: ends the runs early, with an error.
    func tokens(
        of samples: ArraySlice<Int16>, expecting expected: [Int64] = [],
        until interruption: ONNXInterruption?
    ) throws(ONNXError) -> [Int64] {
        let most = max(1, samples.count * Self.tokensPerSecond / 16_000)
        let heard = try encode(samples, until: interruption)
        var tokens: [Int64] = []
        var past = noTokens
        // The next token to be said, which is certain, and what is expected behind it.
        var said = [Self.begin] + expected.prefix(most - 1)
        while true {
            let (choices, new) = try decode(
                said, after: past, hearing: heard, until: interruption)
            let guesses = said.dropFirst()
            let right = zip(choices, guesses).prefix { $0 == $1 }.count
            tokens += guesses.prefix(right)
            guard choices[right] != Self.end, tokens.count < most else { return tokens }
            tokens.append(choices[right])
            past =
                right == guesses.count
                ? new
                : try new.map { tensor throws(ONNXError) in
                    try prefix(of: tensor, tokens: tokens.count)
                }
            said = [choices[right]]
        }
    }

    /// The words of tokens, with a space before the first.
    func text(of tokens: [Int64]) -> String { vocabulary.text(of: tokens) }

    /// What the decoder attends to: keys and values of each of its layers.
    private func encode(
        _ samples: ArraySlice<Int16>, until interruption: ONNXInterruption?
    ) throws(ONNXError) -> [ONNXTensor] {
        let wave = samples.map { Float($0) / 32_768 }
        let tensor = try ONNXTensor(wave, shape: [1, wave.count], encoder.runtime)
        return try encoder.run([("samples", tensor)], outputs: Self.crossNames, until: interruption)
    }

    /// Runs the decoder.
    /// - Returns: for each token the one that follows it, and the keys and values of all tokens.
    private func decode(
        _ tokens: [Int64], after past: [ONNXTensor], hearing heard: [ONNXTensor],
        until interruption: ONNXInterruption?
    ) throws(ONNXError) -> (choices: [Int64], new: [ONNXTensor]) {
        var inputs = [
            (
                name: "tokens",
                tensor: try ONNXTensor(tokens, shape: [1, tokens.count], decoder.runtime)
            )
        ]
        inputs += zip(Self.crossNames, heard).map { ($0, $1) }
        inputs += zip(Self.pastNames, past).map { ($0, $1) }
        let made = try decoder.run(inputs, outputs: ["logits"] + Self.newNames, until: interruption)
        let choices = try made[0].withFloats { Self.choices(in: $0, of: tokens.count) }
        guard choices.count == tokens.count else {
            throw ONNXError(message: "the decoder made \(choices.count) tokens")
        }
        return (choices, Array(made.dropFirst()))
    }

    /// The most probable token of each row.
    private static func choices(in logits: UnsafeBufferPointer<Float>, of rows: Int) -> [Int64] {
        let width = logits.count / rows
        guard width > 0, logits.count == rows * width else { return [] }
        return (0..<rows).map { row in
            var best = row * width
            for index in best + 1..<best + width where logits[index] > logits[best] { best = index }
            return Int64(best - row * width)
        }
    }

    /// The first tokens of keys or values.
    private func prefix(of tensor: ONNXTensor, tokens count: Int) throws(ONNXError) -> ONNXTensor {
        let part = try tensor.withFloats { values -> [Float]? in
            let stride = values.count / Self.heads
            guard values.count == stride * Self.heads, stride >= count * Self.headSize else {
                return nil
            }
            return (0..<Self.heads).flatMap {
                values[$0 * stride..<$0 * stride + count * Self.headSize]
            }
        }
        guard let part else { throw ONNXError(message: "the decoder forgot tokens") }
        return try ONNXTensor(
            part, shape: [1, Self.heads, count, Self.headSize], decoder.runtime)
    }

    /// The keys and values of all layers.
    private static func names(_ kind: String) -> [String] {
        (0..<layers).flatMap { ["\(kind)_key_\($0)", "\(kind)_value_\($0)"] }
    }
}
