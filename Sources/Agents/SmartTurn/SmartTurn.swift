// Smart Turn: a network that hears whether a turn is over, by pipecat's authors, on the worker pool.
// `make smart-turn` installs it. Its features are part of the graph
// (scripts/convert_smart_turn.py), so that only samples go in.

import Session

/// Hears whether a turn is over, in any language. One call takes about 35 ms of CPU.
public final class SmartTurn: TurnEndModel {
    /// What the model hears: the last 6 s at 16 kHz.
    static let samples = 96_000
    private static let file = "smart-turn.onnx"
    /// Memory of the loaded model: 40 MB, with the runtime's library (27 MB), which all models of a
    /// process share.
    private static let loadedSize = 40 << 20
    /// Memory of one call: 8 MB.
    private static let runSize = 8 << 20

    private let load: ModelLoad<ONNXModel>

    /// Creates it; nothing is loaded yet.
    /// - Parameters:
    ///   - modelsDirectory: the folder with `smart-turn/` and `sherpa-onnx/lib/`.
    ///   - report: gets the reason why the model cannot be loaded, as a line for the operator, once
    ///     for each state of its files. Any thread.
    public init(
        modelsDirectory: String, report: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        load = ModelLoad(
            ModelFiles(directory: modelsDirectory, folder: "smart-turn", names: [Self.file]),
            report: report)
    }

    /// Its first file that cannot be read, and why, in one line; nil when all can.
    public var missingFile: String? { load.files.missing }

    /// The memory of the model, and of a call on every worker thread.
    public func serverBytes(workers: Int) -> Int { Self.loadedSize + workers * Self.runSize }

    /// The heap that loading the model has taken.
    public var loadedBytes: Int { load.heapBytes }

    /// Loads the model on a worker thread, for the first of all event loops that asks.
    public func prepare(on host: any AgentHost) async {
        guard load.isFirstToAsk() else { return }
        try? await host.compute { _ = try self.model() }
    }

    /// The probability that a turn is over, 0…1.
    /// - Throws: `AgentError`, or what the host throws.
    public func probability(
        ofEndAfter audio: HeardAudio, on host: any AgentHost
    ) async throws -> Float {
        try await host.compute { try self.probability(ofEndAfter: audio.samples()[...]) }
    }

    /// The same of samples at 16 kHz. Call it on a worker thread.
    /// - Throws: `AgentError.unavailable` where the model cannot be loaded, `.malformedReply` where a
    ///   run fails.
    package func probability(ofEndAfter samples: ArraySlice<Int16>) throws(AgentError) -> Float {
        let heard = samples.suffix(Self.samples)
        var input = [Float](repeating: 0, count: Self.samples - heard.count)
        input += heard.lazy.map { Float($0) / 32_768 }
        let model = try model()
        do throws(ONNXError) {
            let audio = try ONNXTensor(input, shape: [1, Self.samples], model.runtime)
            let end = try model.run([("audio", audio)], outputs: ["end"])[0].floats()
            guard let end = end.first, end.isFinite else {
                throw ONNXError(message: "the turn model made no number")
            }
            return min(max(end, 0), 1)
        } catch {
            throw .malformedReply(message: "The turn model failed.", detail: error.message)
        }
    }

    private func model() throws(AgentError) -> ONNXModel {
        do throws(ModelFault) {
            return try load.model { files, runtime throws(ModelFault) in
                do throws(ONNXError) {
                    return try ONNXModel(path: files.path(Self.file), runtime: runtime)
                } catch {
                    throw .refused(error.message)
                }
            }
        } catch {
            throw .unavailable(message: "The turn model cannot be loaded.")
        }
    }
}
