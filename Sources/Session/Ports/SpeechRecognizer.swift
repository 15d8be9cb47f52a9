// The port to speech recognition.

import Codec
import Synchronization

/// What a recogniser has found in the beginning of an utterance. It belongs to the recogniser, which
/// saves time with it when it hears more of the same utterance. Any thread.
public final class EarlierRecognition: Sendable {
    private let found = Mutex<[Int64]>([])

    /// Nothing was found yet.
    public init() {}

    /// The recogniser's own units of text.
    public var tokens: [Int64] {
        get { found.withLock { $0 } }
        set { found.withLock { $0 = newValue } }
    }

    /// Bytes of the object, and of the tokens.
    var heldBytes: Int {
        HeapBlock.object(EarlierRecognition.self) + found.withLock { $0.heapBytes }
    }
}

/// One utterance of the user.
public struct Utterance: Sendable {
    /// The audio of the utterance.
    public var audio: HeardAudio
    /// ISO-639-1 hint, or nil.
    public var language: String?
    /// The languages that the client expects, where it has named several. Empty: any.
    public var languages: [String] = []
    /// Vocabulary hint, or nil.
    public var prompt: String?
    /// What was recognised of its beginning, or nil where nothing of it was recognised before.
    public var earlier: EarlierRecognition?

    /// Creates an utterance.
    public init(audio: HeardAudio, language: String? = nil, prompt: String? = nil) {
        self.audio = audio
        self.language = language
        self.prompt = prompt
    }

    /// Creates an utterance of mono samples at 16 kHz.
    public init(samples: [Int16], language: String? = nil, prompt: String? = nil) {
        self.init(audio: HeardAudio(samples: samples), language: language, prompt: prompt)
    }

    /// Audio with the hints that the client gave, and what was recognised of it before.
    init(
        audio: HeardAudio, hints: TranscriptionParameters?, after earlier: EarlierRecognition? = nil
    ) {
        self.init(audio: audio, language: hints?.languageHint, prompt: hints?.vocabularyHint)
        languages = hints?.languages ?? []
        self.earlier = earlier
    }

    /// How many mono samples at 16 kHz it has.
    public var sampleCount: Int { audio.sampleCount }

    /// Its samples. They are decoded at each call: call it in `AgentHost.compute`.
    /// - Throws: `AgentError.unavailable` where there is no memory for that.
    public func samples() throws(AgentError) -> [Int16] {
        do {
            return try audio.samples()
        } catch {
            throw .unavailable(message: "The turn's audio cannot be decoded: \(error).")
        }
    }
}

/// The words of an utterance.
public struct Transcript: Equatable, Sendable {
    /// The words; empty means that none were heard.
    public var text: String
    /// The language that was heard (ISO 639), or nil where the recogniser does not tell it.
    public var language: String?

    /// Creates a transcript.
    public init(_ text: String, language: String? = nil) {
        self.text = text
        self.language = language
    }
}

/// Turns speech into text.
public protocol SpeechRecognizer: ModelMemory {
    /// Whether it may be asked repeatedly while the user speaks: for words to show, and for the
    /// whole utterance before it is certain to be over. Up to five times the audio is then
    /// recognised, so a recogniser that is paid for by the minute should return false, the default.
    /// Such requests fail with `AgentError.overloaded` while other work needs the workers: those for
    /// words to show first.
    var makesHypotheses: Bool { get }

    /// The languages that it is expected to hear (ISO 639), the most expected one first. The first
    /// chooses the words that end a turn until another is named or heard. Empty, the default: any.
    var languages: [String] { get }

    /// Transcribes one utterance.
    /// - Throws: an `AgentError`; the transcription fails and the session lives on.
    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript

    /// The same, with parts of the text while it is made. Services that stream do so.
    /// - Parameter partial: receives text that the result will have, piece after piece.
    func transcribe(
        _ utterance: Utterance, on host: any AgentHost,
        partial: @Sendable (String) async throws -> Void
    ) async throws -> Transcript

    /// A client has said how it will be heard, or begun to send audio: load the model, so that the
    /// first words do not wait for it. Called at least once, also by several event loops. An error
    /// is not reported here, but by `transcribe`, which meets it again. The default does nothing.
    func prepare(on host: any AgentHost) async

    /// Checks whether its service can be used, when the server starts. Faults are reported to the
    /// host. By default there is no service.
    func checkRecognizer(on host: any AgentHost) async
}

extension SpeechRecognizer {
    /// Each utterance is recognised once.
    public var makesHypotheses: Bool { false }

    /// By default it may hear any.
    public var languages: [String] { [] }

    /// By default the text comes in one piece.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost,
        partial: @Sendable (String) async throws -> Void
    ) async throws -> Transcript { try await transcribe(utterance, on: host) }

    /// By default there is nothing to load.
    public func prepare(on host: any AgentHost) async {}

    /// By default there is no service to check.
    public func checkRecognizer(on host: any AgentHost) async {}
}
