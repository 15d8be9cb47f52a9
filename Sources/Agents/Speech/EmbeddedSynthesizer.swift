// The embedded voices by name: the natural voice and flite's. NaturalVoiceTable and FliteVoiceTable
// have the names; NaturalSynthesizer and FliteSynthesizer speak.
//
// Where the natural voice cannot be loaded, flite's voice of the same name speaks.

import Codec
import Session
import Synchronization

/// What speaks the names that the natural voice has, and those that no voice has.
public enum VoiceEngine: String, CaseIterable, Sendable {
    /// flite only.
    case flite
    /// The natural voice, where it is installed.
    case natural
}

/// Speaks with the voice that a client names.
public final class EmbeddedSynthesizer: SpeechSynthesizer {
    /// The protocol's default.
    static let standardName = "marin"

    private let engine: VoiceEngine
    private let flite = FliteSynthesizer()
    private let natural: NaturalVoice
    private let substituted = Atomic<Int>(0)

    /// Creates a synthesiser; nothing is loaded yet.
    /// - Parameters:
    ///   - modelsDirectory: the folder with `natural-voice/` and `sherpa-onnx/lib/`.
    ///   - engine: what speaks.
    ///   - report: gets the reason why the natural voice cannot be loaded, as a line for the operator,
    ///     once for each state of its files. Any thread.
    public init(
        modelsDirectory: String, engine: VoiceEngine,
        report: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.engine = engine
        natural = NaturalVoice(modelsDirectory: modelsDirectory, report: report)
    }

    /// The first file of the natural voice that cannot be read, and why, in one line; nil when all
    /// can.
    public var missingFile: String? { natural.missingFile }

    /// The voices and how each sounds, the standard one first.
    public var voices: [PageVoice] {
        let described = FliteVoiceTable.described
        return described.filter { $0.name == Self.standardName }
            + described.filter { $0.name != Self.standardName }
    }

    /// English: the embedded voices speak nothing else.
    public var languages: [String]? { ["en"] }

    /// Clauses that flite spoke because the natural voice cannot be loaded.
    public var substitutedClauses: Int { substituted.load(ordering: .relaxed) }

    /// The memory of the natural voice, and of a clause on every worker thread; 0 where it does not
    /// speak.
    public func serverBytes(workers: Int) -> Int {
        guard engine == .natural, missingFile == nil else { return 0 }
        return NaturalVoice.loadedBytes + workers * NaturalVoice.runBytes
    }

    /// The heap that loading the natural voice has taken.
    public var loadedBytes: Int { natural.loadedHeapBytes }

    /// Loads the voice of clients that name none, for the first of all event loops that asks, and has
    /// it say a word that is discarded: the first word takes longer than others.
    public func prepareVoice(on host: any AgentHost) async {
        guard engine == .natural else { return await flite.prepareVoice(on: host) }
        guard natural.isFirstToAsk() else { return }
        try? await host.compute { [natural] in
            try natural.model()?.speak("jˈɛs.", speed: 1) { _ in true }
        }
    }

    /// Speaks a clause.
    /// - Throws: what FliteSynthesizer and NaturalSynthesizer throw.
    public func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        guard let rate = naturalRate(of: request.voice) else {
            return try await flite.speak(request, on: host, emit: emit)
        }
        let model =
            if let loaded = natural.loadedModel { loaded } else {
                try await host.compute { [natural] in natural.model() }
            }
        if let model {
            let natural = NaturalSynthesizer(model: model, rate: rate)
            return try await natural.speak(request, on: host, emit: emit)
        }
        substituted.add(1, ordering: .relaxed)
        try await flite.speak(request, on: host) { chunk in
            var chunk = chunk
            chunk.isSubstitute = true
            try await emit(chunk)
        }
    }

    /// The rate of the natural voice for a name; nil where flite speaks it.
    func naturalRate(of name: String) -> SampleRate? {
        guard engine == .natural else { return nil }
        let unknown = FliteVoiceTable.all[name] == nil
        return NaturalVoiceTable.rates[name] ?? (unknown ? NaturalVoiceTable.rate : nil)
    }
}
