// Smart Turn: a network that hears whether a turn is over, by pipecat's authors, on the worker pool.
// `make smart-turn` installs it. Its features are part of the graph
// (scripts/convert_smart_turn.py), so that only samples go in.

import CLinux
import Session
import Synchronization

/// Hears whether a turn is over, in any language. One call takes about 35 ms of CPU.
public final class SmartTurn: TurnEndModel {
    /// What the model hears: the last 6 s at 16 kHz.
    static let samples = 96_000
    /// Its path in the models directory.
    static let file = "smart-turn/smart-turn.onnx"
    /// Memory of the loaded model with its runtime: 40 MB.
    private static let loadedSize = 40 << 20
    /// Memory of one call: 8 MB.
    private static let runSize = 8 << 20

    private let directory: String
    private let model = Mutex<ONNXModel?>(nil)
    private let isLoaded = Atomic(false)

    /// Creates it; nothing is loaded yet.
    /// - Parameter modelsDirectory: the folder with `smart-turn/` and `sherpa-onnx/lib/`.
    public init(modelsDirectory: String) { directory = modelsDirectory }

    /// Its first file that cannot be read, and why, in one line; nil when all can.
    public var missingFile: String? {
        for path in [Self.file, ONNXRuntime.library].map({ "\(directory)/\($0)" })
        where access(path, R_OK) != 0 {
            return "\(path): \(String(cString: strerror(parley_errno())))"
        }
        return nil
    }

    /// The memory of the model, and of a call on every worker thread.
    public func serverBytes(workers: Int) -> Int { Self.loadedSize + workers * Self.runSize }

    /// What the model takes once it is loaded, as measured before.
    public var loadedBytes: Int { isLoaded.load(ordering: .relaxed) ? Self.loadedSize : 0 }

    /// Loads the model on a worker thread.
    public func prepare(on host: any AgentHost) async {
        guard !isLoaded.load(ordering: .relaxed) else { return }
        try? await host.compute { _ = try self.loadedModel() }
    }

    /// The probability that a turn is over, 0…1.
    /// - Throws: `AgentError.unavailable` where the model cannot be loaded, or what the host throws.
    public func probability(
        ofEndAfter audio: HeardAudio, on host: any AgentHost
    ) async throws -> Float {
        try await host.compute { try self.probability(ofEndAfter: audio.samples()[...]) }
    }

    /// The same of samples at 16 kHz. Call it on a worker thread.
    package func probability(ofEndAfter samples: ArraySlice<Int16>) throws(AgentError) -> Float {
        let heard = samples.suffix(Self.samples)
        var input = [Float](repeating: 0, count: Self.samples - heard.count)
        input += heard.lazy.map { Float($0) / 32_768 }
        do throws(ONNXError) {
            let model = try loadedModel()
            let audio = try ONNXTensor(input, shape: [1, Self.samples], model.runtime)
            let end = try model.run([("audio", audio)], outputs: ["end"])[0].floats()
            guard let end = end.first, end.isFinite else {
                throw ONNXError(message: "the turn model made no number")
            }
            return min(max(end, 0), 1)
        } catch {
            throw .unavailable(message: "The turn model failed.")
        }
    }

    /// Loads the model unless it is loaded, after its checksum was compared: a damaged file may end
    /// the process. A failure is met again by the next call.
    private func loadedModel() throws(ONNXError) -> ONNXModel {
        try model.withLock { model throws(ONNXError) in
            if let model { return model }
            let (folder, name) = ("\(directory)/smart-turn", "smart-turn.onnx")
            guard ModelChecksums(directory: folder)?.firstFault(of: [name]) == nil else {
                throw ONNXError(message: "\(name) is damaged")
            }
            let runtime = try ONNXRuntime(path: "\(directory)/\(ONNXRuntime.library)")
            let loaded = try ONNXModel(path: "\(directory)/\(Self.file)", runtime: runtime)
            model = loaded
            isLoaded.store(true, ordering: .relaxed)
            return loaded
        }
    }
}
