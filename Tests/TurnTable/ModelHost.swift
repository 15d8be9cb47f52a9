// The environment that the embedded models need, and a cache in front of the recogniser: the same
// audio is recognised again and again, in every mode of turn detection.

import Agents
import Session

/// Why a table cannot be made.
struct TurnTableFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Runs jobs at once, on the caller's thread.
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
    /// The text of an utterance, and the milliseconds that recognition took.
    typealias Result = (text: String, milliseconds: Int)
    private var known: [[Int16]: Result] = [:]
    /// Time spent on recognition.
    private(set) var time = Duration.zero
    private(set) var samples = 0

    /// - Parameter recognizer: loaded once, shared by all.
    init(_ recognizer: MoonshineRecognizer, host: ModelHost) {
        self.recognizer = recognizer
        self.host = host
    }

    /// - Parameter again: whether to recognise it even if a result is cached, to measure the time
    ///   that it takes now.
    func transcribe(_ utterance: Utterance, again: Bool = false) async throws -> Result {
        let said = try utterance.samples()
        if !again, let result = known[said] { return result }
        let clock = ContinuousClock()
        let start = clock.now
        let text = try await recognizer.transcribe(utterance, on: host).text
        let took = clock.now - start
        time += took
        samples += said.count
        let result = (text, Int(took.wholeMilliseconds))
        known[said] = result
        return result
    }
}
