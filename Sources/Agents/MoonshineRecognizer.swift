// The embedded speech recognition: Moonshine on the worker pool, loaded when first needed. The
// model itself is in MoonshineModel, cutting long utterances in UtteranceSplitter.

import CLinux
import Session
import Synchronization

/// Recognises English offline, one model shared by all sessions: about 0.04 s of CPU per second of
/// speech, 290 MB once loaded.
public final class MoonshineRecognizer: SpeechRecognizer {
    /// Shorter utterances hold no word; the model would make one up. 100 ms.
    private static let minSamples = 1_600
    /// Moonshine was trained on up to 30 s; 28 leaves room for what the cut adds.
    private static let splitter = UtteranceSplitter(
        maxSamples: 28 * 16_000, searchSamples: 10 * 16_000, quietSamples: 3_200)
    private static let notInstalled = AgentError.unavailable(
        message: "Speech recognition is not installed: run `make models`.")

    private let files: MoonshineModel.Files
    /// The loaded model. The lock is held while it loads: whoever needs it meanwhile waits on a
    /// worker thread, and none loads it twice.
    private let loaded = Mutex<MoonshineModel?>(nil)

    /// Creates a recogniser; nothing is loaded yet.
    /// - Parameter modelsDirectory: holds `moonshine-base-en/` and `sherpa-onnx/lib/`.
    public init(modelsDirectory: String) {
        files = MoonshineModel.Files(modelsDirectory: modelsDirectory)
    }

    /// Nobody pays for it but the machine, and only with what nobody else needs.
    public var makesHypotheses: Bool { true }

    /// Whether the model's files are there. They are not opened.
    public var isInstalled: Bool { files.all.allSatisfy { access($0, R_OK) == 0 } }

    /// Loads the model unless it is loaded, which takes about half a second: call it on a worker
    /// thread. Without it, the first utterance loads the model.
    /// - Throws: `AgentError.unavailable`; a later call tries again.
    public func prepare() throws(AgentError) { _ = try model() }

    /// Loads the model on a worker thread.
    public func prepare(on host: any AgentHost) async {
        try? await host.compute { try self.prepare() }
    }

    /// Transcribes an utterance; one longer than 28 s is cut at quiet points. The hints are of no
    /// use to this model.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost
    ) async throws -> String {
        guard utterance.sampleCount >= Self.minSamples else {
            guard isInstalled else { throw Self.notInstalled }
            return ""
        }
        guard utterance.sampleCount > Self.splitter.maxSamples else {
            let text = try await host.compute {
                try self.words(in: utterance.samples()[...])
            }
            return text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        let samples = try await host.compute { try utterance.samples() }
        var texts: [String] = []
        // One job per segment: other sessions get their turn between two, and so does a
        // cancellation.
        for segment in Self.splitter.segments(of: samples) {
            let text = try await host.compute { try self.words(in: samples[segment]) }
            let words = text.split(whereSeparator: \.isWhitespace)
            if !words.isEmpty { texts.append(words.joined(separator: " ")) }
        }
        return texts.joined(separator: " ")
    }

    /// What is said in samples at 16 kHz, at most 28 s; on a worker thread.
    func words(in samples: ArraySlice<Int16>) throws(AgentError) -> String {
        try model().transcribe(samples)
    }

    private func model() throws(AgentError) -> MoonshineModel {
        try loaded.withLock { model throws(AgentError) in
            if let model { return model }
            guard isInstalled else { throw Self.notInstalled }
            let sherpa: SherpaLibrary
            do throws(SherpaLibrary.LoadingError) {
                sherpa = try SherpaLibrary(path: files.library)
            } catch {
                throw .unavailable(
                    message: "The speech recognition library cannot be opened: \(error.message).")
            }
            guard let created = MoonshineModel(files: files, sherpa: sherpa) else {
                throw .unavailable(
                    message: "The speech recognition model cannot be read: run `make models`.")
            }
            model = created
            return created
        }
    }
}
