// The embedded voices by name: flite's, and the natural voice where it is installed. FliteSynthesizer
// and NaturalSynthesizer speak.
//
// The natural voice takes about nine times the CPU of flite's. While the worker threads are busy,
// or while it is being loaded, its clauses are spoken by flite, so that no reply waits for its
// first word.

import Session
import Synchronization

/// The engine of the names that no voice has, and of `marin`, the protocol's default.
public enum VoiceEngine: String, CaseIterable, Sendable {
    /// flite: always there.
    case flite
    /// The natural voice, which `make voice` installs.
    case natural
}

/// Speaks with the voice that a client names.
public final class EmbeddedSynthesizer: SpeechSynthesizer {
    /// The name of the natural voice.
    public static let naturalName = "natural"
    /// The protocol's default.
    static let standardName = "marin"
    /// The name of the flite voice that stands in for it: a man, too.
    static let substituteName = "cedar"
    /// Jobs for each worker thread, running or waiting, from which a clause is flite's. The limit is
    /// 3: the first sound of a clause would wait for two windows of other clauses, up to 0.2 s.
    static let maxBacklog = 3

    private let engine: VoiceEngine
    private let flite = FliteSynthesizer()
    private let natural: NaturalSynthesizer
    private let substituted = Atomic<Int>(0)

    /// Creates a synthesiser; nothing is loaded yet.
    /// - Parameters:
    ///   - modelsDirectory: the folder with `natural-voice/` and `sherpa-onnx/lib/`.
    ///   - engine: what speaks names that no voice has.
    public init(modelsDirectory: String, engine: VoiceEngine) {
        self.engine = engine
        natural = NaturalSynthesizer(voice: NaturalVoice(modelsDirectory: modelsDirectory))
    }

    /// The first file of the natural voice that cannot be read, and why, in one line; nil when all
    /// can.
    public var missingFile: String? { natural.voice.missingFile }

    /// The voices that are installed and how each sounds, the standard one first.
    public var voices: [PageVoice] {
        let names =
            [Self.standardName]
            + FliteVoiceTable.described.map(\.name)
            .filter { $0 != Self.standardName }
            + (missingFile == nil && engine == .flite ? [Self.naturalName] : [])
        return names.map { name in
            PageVoice(
                name: name,
                description: isNatural(name)
                    ? "a man, the most natural" : FliteVoiceTable.choice(named: name).description)
        }
    }

    /// Clauses of the natural voice that flite spoke, because the workers were busy or loading it.
    public var substitutedClauses: Int { substituted.load(ordering: .relaxed) }

    /// The memory of the natural voice, and of a clause on every worker thread; 0 where it is not
    /// installed.
    public func serverBytes(workers: Int) -> Int {
        guard missingFile == nil else { return 0 }
        return NaturalVoice.loadedBytes + workers * NaturalVoice.runBytes
    }

    /// The heap that loading the natural voice has taken.
    public var loadedBytes: Int { natural.voice.loadedHeapBytes }

    /// Opens the voice of clients that name none.
    public func prepareVoice(on host: any AgentHost) async {
        switch engine {
        case .flite: await flite.prepareVoice(on: host)
        case .natural: await natural.prepareVoice(on: host)
        }
    }

    /// Speaks a clause.
    /// - Throws: `AgentError.unavailable` where the client names the natural voice and it is not
    ///   installed, and what FliteSynthesizer and NaturalSynthesizer throw.
    public func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        guard isNatural(request.voice) else {
            return try await flite.speak(request, on: host, emit: emit)
        }
        guard host.computeBacklog >= Self.maxBacklog || natural.voice.isLoading else {
            return try await natural.speak(request, on: host, emit: emit)
        }
        guard missingFile == nil else { throw NaturalVoice.notInstalled }
        substituted.add(1, ordering: .relaxed)
        var substitute = request
        substitute.voice = Self.substituteName
        try await flite.speak(substitute, on: host) { chunk in
            var chunk = chunk
            chunk.isSubstitute = true
            try await emit(chunk)
        }
    }

    /// Whether the natural voice speaks a name.
    func isNatural(_ name: String) -> Bool {
        if name == Self.naturalName { return true }
        guard engine == .natural else { return false }
        return name == Self.standardName || FliteVoiceTable.all[name] == nil
    }
}
