// What the embedded models need of a server, and the recogniser behind a cache: the same audio
// comes up again and again, in every mode of turn detection.

import Agents
import Session

/// Why no table can be made.
struct TurnTableFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Computes at once, on the caller's thread.
struct ModelHost: AgentHost {
    func sleep(for duration: Duration) async throws {}

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result { try work() }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {
        let (pieces, continuation) = AsyncStream<Element>.makeStream()
        try work {
            continuation.yield($0)
            return true
        }
        continuation.finish()
        for await piece in pieces { try await each(piece) }
    }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        throw TurnTableFailure("the embedded models need no network")
    }
}

/// The embedded recogniser; each utterance is recognised once.
final class CachedRecognizer {
    private let recognizer: MoonshineRecognizer
    private let host: ModelHost
    private var texts: [[Int16]: String] = [:]
    /// Time spent recognising, and the audio recognised in it.
    private(set) var time = Duration.zero
    private(set) var samples = 0

    init(modelsDirectory: String, host: ModelHost) throws {
        recognizer = MoonshineRecognizer(modelsDirectory: modelsDirectory)
        self.host = host
        try recognizer.prepare()
    }

    func transcribe(_ utterance: Utterance) async throws -> String {
        if let known = texts[utterance.samples] { return known }
        let clock = ContinuousClock()
        let start = clock.now
        let text = try await recognizer.transcribe(utterance, on: host)
        time += clock.now - start
        samples += utterance.samples.count
        texts[utterance.samples] = text
        return text
    }
}
