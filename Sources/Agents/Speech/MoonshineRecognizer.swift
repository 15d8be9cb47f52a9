// The embedded speech recognition: Moonshine on the worker pool, loaded when first needed.
// MoonshineModel is the model itself; UtteranceSplitter cuts long utterances.

import Session

/// Recognises English offline, with one model shared by all sessions. It takes about 0.025 s of
/// CPU per second of speech, 120 MB once loaded, and at most 40 MB more for each decode in progress.
public final class MoonshineRecognizer: SpeechRecognizer {
    private static let folder = "moonshine-base-en"
    /// 100 ms. A shorter utterance contains no word, and the model would invent one.
    private static let minSamples = 1_600
    /// Segments of at most 15 s. Moonshine was trained on up to 30 s, but the memory and the time
    /// of a decode grow with the square of its length.
    private static let splitter = UtteranceSplitter(
        maxSamples: 15 * 16_000, searchSamples: 6 * 16_000, quietSamples: 3_200)
    private static let notInstalled = AgentError.unavailable(
        message: "Speech recognition is not installed: run `make models`.")

    private let load: ModelLoad<MoonshineModel>
    private let voiceActivity: VoiceActivityModel?

    /// Creates a recogniser; nothing is loaded yet.
    /// - Parameters:
    ///   - modelsDirectory: the folder with `moonshine-base-en/` and `sherpa-onnx/lib/`.
    ///   - voiceActivity: finds the speech. The model often hears no word at all after more than half
    ///     a second of silence, which a push-to-talk client may send. It also often hears no word of
    ///     a list of bare items, such as the digits of a telephone number. Without it, utterances are
    ///     heard from their first sample, as one.
    public init(modelsDirectory: String, voiceActivity: VoiceActivityModel? = nil) {
        load = ModelLoad(
            ModelFiles(
                directory: modelsDirectory, folder: nil,
                names: MoonshineModel.Files.all.map { "\(Self.folder)/\($0)" }))
        self.voiceActivity = voiceActivity
    }

    /// True: a hypothesis costs only processor time that is otherwise free.
    public var makesHypotheses: Bool { true }

    /// The memory of the model, and of a decode of the longest segment on every worker thread.
    public func serverBytes(workers: Int) -> Int {
        MoonshineModel.loadedBytes + workers * MoonshineModel.decodeBytes
    }

    /// The heap that loading the model has taken.
    public var loadedBytes: Int { load.heapBytes }

    /// Whether the model's files exist and may be read. They are not opened.
    public var isInstalled: Bool { missingFile == nil }

    /// The first of the model files that cannot be read, and why, in one line; nil when all can.
    public var missingFile: String? { load.files.missing }

    /// Whether the model's files are compared with checksums before they are loaded. Without that,
    /// a damaged file may end the process.
    public var hasChecksums: Bool { ModelChecksums(directory: load.files.directory) != nil }

    /// Loads the model unless it is loaded. This takes about half a second: call it on a worker
    /// thread. If it is not called, the first utterance loads the model.
    /// - Throws: `AgentError.unavailable`; a later call tries again.
    public func prepare() throws(AgentError) { _ = try model() }

    /// Loads the model on a worker thread, for the first of all event loops that asks. A second
    /// worker would only wait for it.
    public func prepare(on host: any AgentHost) async {
        guard load.isFirstToAsk() else { return }
        try? await host.compute { try self.prepare() }
    }

    /// Transcribes an utterance; one longer than 15 s is cut at quiet points. This model ignores
    /// the language and the prompt.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost
    ) async throws -> Transcript {
        Transcript(try await words(of: utterance, on: host), language: "en")
    }

    private func words(of utterance: Utterance, on host: any AgentHost) async throws -> String {
        guard utterance.sampleCount >= Self.minSamples else {
            guard isInstalled else { throw Self.notInstalled }
            return ""
        }
        guard utterance.sampleCount > Self.splitter.maxSamples else {
            let text = try await host.computeInterruptibly { interruption in
                try self.words(
                    in: utterance.samples()[...], after: utterance.earlier, until: interruption)
            }
            return text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        let samples = try await host.compute { try utterance.samples() }
        var texts: [String] = []
        // One job per segment, so that other sessions' jobs run between two segments, and a
        // cancellation takes effect there.
        for segment in Self.splitter.segments(of: samples) {
            let text = try await host.computeInterruptibly { interruption in
                try self.words(in: samples[segment], until: interruption)
            }
            let words = text.split(whereSeparator: \.isWhitespace)
            if !words.isEmpty { texts.append(words.joined(separator: " ")) }
        }
        return texts.joined(separator: " ")
    }

    /// The words in at most 15 s of samples at 16 kHz, without the silence before the first of them.
    /// Call it on a worker thread.
    /// - Parameter earlier: what was recognised of a beginning of the samples; it is replaced.
    func words(
        in samples: ArraySlice<Int16>, after earlier: EarlierRecognition? = nil,
        until interruption: ONNXInterruption? = nil
    ) throws(AgentError) -> String {
        let model = try model()
        let stretch = SpokenStretch(of: samples, model: voiceActivity)
        do throws(ONNXError) {
            let tokens = try model.tokens(
                of: stretch.samples, expecting: earlier?.tokens ?? [], until: interruption)
            earlier?.tokens = tokens
            return try words(
                of: stretch, heardAs: model.text(of: tokens), model, until: interruption)
        } catch {
            throw .malformedReply(
                message: "The speech recognition model failed.", detail: error.message)
        }
    }

    /// Where words are missing, the speech is cut at its quietest point, and the parts are decoded
    /// alone.
    /// - Parameter whole: the words that were heard in all of it.
    private func words(
        of stretch: SpokenStretch, heardAs whole: String, _ model: MoonshineModel,
        until interruption: ONNXInterruption?
    ) throws(ONNXError) -> String {
        guard stretch.lacksWords(whole), let (first, second) = stretch.halves else { return whole }
        let parts = try [first, second].map { part throws(ONNXError) in
            let heard = model.text(of: try model.tokens(of: part.samples, until: interruption))
            return try words(of: part, heardAs: heard, model, until: interruption)
        }
        let joined = Self.join(parts)
        let isMore = SpokenStretch.letters(in: joined) > SpokenStretch.letters(in: whole)
        return isMore ? joined : whole
    }

    /// Parts of one utterance in a row. The model ends each like a sentence, which it is not.
    static func join(_ parts: [String]) -> String {
        let texts = parts.map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
            .filter { !$0.isEmpty }
        let open = texts.dropLast().map { text in
            String(text.reversed().drop { ".,!?".contains($0) }.reversed())
        }
        return (open + texts.suffix(1)).joined(separator: " ")
    }

    private func model() throws(AgentError) -> MoonshineModel {
        do throws(ModelFault) {
            return try load.model { files, runtime throws(ModelFault) in
                do throws(ONNXError) {
                    return try MoonshineModel(folder: files.path(Self.folder), runtime: runtime)
                } catch {
                    throw .refused(error.message)
                }
            }
        } catch {
            throw unusable(error)
        }
    }

    /// What a client is told. It does not learn whole paths.
    private func unusable(_ fault: ModelFault) -> AgentError {
        let model = "The speech recognition model"
        return switch fault {
        case .missing: Self.notInstalled
        case .unreadable(let file): .unavailable(message: "\(model) cannot be read (\(file)).")
        case .damaged(let file):
            .unavailable(message: "\(model) is damaged (\(file)): run `make models`.")
        case .refused(let reason):
            .unavailable(
                message: "\(model) cannot be loaded "
                    + "(\(load.files.withoutDirectory(reason))): run `make models`.")
        }
    }
}
