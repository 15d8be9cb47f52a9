// The embedded speech recognition of many languages: Whisper on the worker pool, loaded when first
// needed. WhisperModel is the model itself, WhisperDecoding chooses its words. LanguageRecognizer
// decides who hears what.

import Session

/// Recognises speech in the languages of a Whisper model, with one model shared by all sessions. The
/// base model takes about 0.05 s of CPU per second of speech and 170 MB once loaded.
public final class WhisperRecognizer: SpeechRecognizer {
    /// The folder of the base model in the models directory, which `make languages` makes.
    public static let baseFolder = "whisper-base"
    /// Segments of at most 15 s: in longer ones the model may end after the first sentence.
    private static let splitter = UtteranceSplitter(
        maxSamples: 15 * 16_000, searchSamples: 6 * 16_000, quietSamples: 3_200)
    /// Tokens that a job of the worker pool chooses. With 4, a job takes about 25 ms: then other
    /// sessions' jobs run, and a cancellation takes effect.
    private static let tokensPerJob = 4
    /// Resident bytes of the loaded base model, with the runtime's library (27 MB), which all models of
    /// a process share.
    static let loadedBytes = 170_000_000
    /// Additional bytes of each thread that runs the base model, at most: the work space of 15 s, which
    /// the runtime keeps.
    static let runBytes = 60_000_000
    /// Bytes of the base model's files.
    private static let baseFileBytes = 107_700_000

    /// What was heard of a segment.
    struct Heard: Sendable {
        fileprivate let model: WhisperModel
        fileprivate let sound: WhisperModel.Sound
    }

    private let load: ModelLoad<WhisperModel>
    private let voiceActivity: VoiceActivityModel?

    /// Creates a recogniser; nothing is loaded yet.
    /// - Parameters:
    ///   - folder: the path of the model's folder within `modelsDirectory`.
    ///   - modelsDirectory: has the library of the ONNX runtime in `sherpa-onnx/lib/`.
    ///   - voiceActivity: finds the speech. The model invents words where there is none. Without it,
    ///     utterances are heard from their first to their last sample.
    public init(
        folder: String = baseFolder, modelsDirectory: String,
        voiceActivity: VoiceActivityModel? = nil
    ) {
        load = ModelLoad(
            ModelFiles(
                directory: modelsDirectory, folder: folder, names: WhisperModel.Files.all))
        self.voiceActivity = voiceActivity
    }

    /// True: a hypothesis costs only processor time that is otherwise free.
    public var makesHypotheses: Bool { true }

    /// The memory of the model, and of a run on every worker thread: that of the base model, and more
    /// for a larger one by the size of its files.
    public func serverBytes(workers: Int) -> Int {
        let base = Self.loadedBytes + workers * Self.runBytes
        let ratio = Double(load.files.bytes) / Double(Self.baseFileBytes)
        return Int(Double(base) * max(1, ratio))
    }

    /// The heap that loading the model has taken.
    public var loadedBytes: Int { load.heapBytes }

    /// The first of its files that cannot be read, and why, in one line; nil when all can. They are
    /// not opened.
    public var missingFile: String? { load.files.missing }

    /// Loads the model on a worker thread, for the first of all event loops that asks.
    public func prepare(on host: any AgentHost) async {
        guard load.isFirstToAsk() else { return }
        _ = try? await host.compute { try self.model() }
    }

    // MARK: Recognition

    /// Transcribes an utterance in its language. Where it names none, or one that the model does not
    /// know, the language is identified among all of them.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost
    ) async throws -> Transcript {
        let segments = try await segments(of: utterance, on: host)
        guard let first = segments.first else { return Transcript("") }
        let heard = try await hear(first, on: host)
        let language = try await language(of: heard, named: utterance.language, on: host)
        let words = try await words(of: segments, in: language, first: heard, on: host)
        return Transcript(words, language: language)
    }

    /// The segments of an utterance, each with its speech and no silence before it; empty where there
    /// is no speech. The segments are cut at quiet points.
    func segments(
        of utterance: Utterance, on host: any AgentHost
    ) async throws -> [ArraySlice<Int16>] {
        guard utterance.sampleCount >= WhisperRounds.minSamples else { return [] }
        guard utterance.sampleCount > Self.splitter.maxSamples else {
            return try await host.compute { try self.speech(in: utterance.samples()[...]) }
        }
        let samples = try await host.compute { try utterance.samples() }
        var segments: [ArraySlice<Int16>] = []
        for segment in Self.splitter.segments(of: samples) {
            segments += try await host.compute { self.speech(in: samples[segment]) }
        }
        return segments
    }

    /// The speech of a segment; empty where there is none.
    private func speech(in segment: ArraySlice<Int16>) -> [ArraySlice<Int16>] {
        let speech = SpokenStretch(of: segment, model: voiceActivity).speech
        return speech.count < WhisperRounds.minSamples ? [] : [speech]
    }

    /// Hears a segment.
    func hear(_ segment: ArraySlice<Int16>, on host: any AgentHost) async throws -> Heard {
        try await host.computeInterruptibly { interruption in
            let model = try self.model()
            let sound = try Self.checked { () throws(ONNXError) in
                try model.hear(segment, until: interruption)
            }
            return Heard(model: model, sound: sound)
        }
    }

    /// The language of what was heard.
    /// - Parameters:
    ///   - named: what the client calls it (ISO 639, such as "fr" or "fr-CA"). It is taken where the
    ///     model knows it.
    ///   - languages: those to choose from; empty: all that the model knows.
    func language(
        of heard: Heard, named: String? = nil, among languages: [String] = [],
        on host: any AgentHost
    ) async throws -> String {
        let known = heard.model.vocabulary.languages
        if let named = named.map(Phrase.primary), known[named] != nil { return named }
        return try await host.computeInterruptibly { interruption in
            let names = languages.isEmpty ? known.keys.sorted() : languages
            let choices = names.compactMap { name in
                known[Phrase.primary(name)].map { (name: Phrase.primary(name), token: $0) }
            }
            return try Self.checked { () throws(ONNXError) in
                var memory = try heard.model.begin()
                let start = heard.model.vocabulary.start
                return try heard.model.read(
                    [start], of: heard.sound, &memory, until: interruption
                ) { odds in
                    choices.max { odds[$0.token] < odds[$1.token] }?.name
                }
            }
        } ?? "en"
    }

    /// The words of segments.
    /// - Parameter first: what was heard of the first, where it is known.
    func words(
        of segments: [ArraySlice<Int16>], in language: String, first: Heard?,
        on host: any AgentHost
    ) async throws -> String {
        var texts: [String] = []
        var known = first
        for segment in segments {
            var rounds = WhisperRounds(segment)
            while let rest = rounds.next {
                let heard = if let known { known } else { try await hear(rest, on: host) }
                known = nil
                let decoding = try await decode(
                    heard, in: language, atMost: rounds.tokensLeft, on: host)
                texts += decoding.text.split(whereSeparator: \.isWhitespace).map(String.init)
                rounds.note(tokens: decoding.tokens.count, reached: decoding.reached)
            }
        }
        return texts.joined(separator: " ")
    }

    /// Chooses the words of what was heard, in jobs of a few tokens each.
    private func decode(
        _ heard: Heard, in language: String, atMost tokens: Int, on host: any AgentHost
    ) async throws -> WhisperDecoding {
        host.charge(heard.sound.bytes)
        defer { host.charge(-heard.sound.bytes) }
        var run = try Self.checked { () throws(ONNXError) in
            try WhisperRun(heard, in: language, atMost: tokens)
        }
        while !run.isOver {
            run = try await host.computeInterruptibly { [run] interruption in
                try Self.checked { () throws(ONNXError) in
                    try run.advanced(by: Self.tokensPerJob, heard, until: interruption)
                }
            }
        }
        return run.decoding
    }

    // MARK: Loading

    /// The model, loaded by the first call: about a second.
    /// - Throws: `AgentError.unavailable`.
    private func model() throws(AgentError) -> WhisperModel {
        do throws(ModelFault) {
            return try load.model { files, runtime throws(ModelFault) in
                do throws(ONNXError) {
                    return try WhisperModel(files, runtime: runtime)
                } catch {
                    throw .refused(error.message)
                }
            }
        } catch {
            // The client must not learn whole paths.
            let reason = load.files.withoutDirectory(error.reason)
            throw .unavailable(
                message: "The speech recognition of other languages cannot be used (\(reason)): "
                    + "run `make languages`.")
        }
    }

    /// What `body` returns; an error of the runtime as one of the port.
    private static func checked<Result>(
        _ body: () throws(ONNXError) -> Result
    ) throws(AgentError) -> Result {
        do throws(ONNXError) { return try body() } catch {
            throw .malformedReply(
                message: "The speech recognition model failed.", detail: error.message)
        }
    }
}

/// The words of one segment while they are chosen. It goes from one job of the worker pool to the
/// next.
private struct WhisperRun: Sendable {
    private(set) var decoding: WhisperDecoding
    private(set) var isOver = false
    private var memory: WhisperModel.Memory
    /// The tokens that the model reads next.
    private var unread: [Int]

    init(
        _ heard: WhisperRecognizer.Heard, in language: String, atMost tokens: Int
    ) throws(ONNXError) {
        let vocabulary = heard.model.vocabulary
        decoding = WhisperDecoding(
            vocabulary: vocabulary, seconds: heard.sound.seconds, atMost: tokens)
        memory = try heard.model.begin()
        let token = vocabulary.languages[language] ?? vocabulary.start + 1
        unread = WhisperDecoding.prompt(language: token, vocabulary)
    }

    /// The run after some tokens more.
    func advanced(
        by tokens: Int, _ heard: WhisperRecognizer.Heard, until interruption: ONNXInterruption
    ) throws(ONNXError) -> WhisperRun {
        var run = self
        for _ in 0..<tokens where !run.isOver {
            let next = try heard.model.read(
                run.unread, of: heard.sound, &run.memory, until: interruption
            ) { run.decoding.next($0) }
            run.unread = [next ?? 0]
            run.isOver = next == nil
        }
        return run
    }
}
