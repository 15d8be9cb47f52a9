// The sound of one sentence, and what it took. The embedded models need a host; this one has neither
// threads nor network.

import Agents
import Codec
import Foundation
import Session

/// Speech as it comes, with its cost.
final class MeasuredSpeech: @unchecked Sendable {
    private let startCPU = MeasuredSpeech.processSeconds
    private var chunks: [SpeechChunk] = []
    /// Milliseconds of CPU time of the process to the first samples.
    private(set) var firstSound = 0.0
    /// Seconds of CPU time of the process.
    private(set) var cpu = 0.0

    /// Seconds of sound.
    var seconds: Double {
        chunks.reduce(0) { $0 + Double($1.samples.count) / Double($1.rate.hertz) }
    }

    func append(_ chunk: SpeechChunk) {
        if chunks.isEmpty { firstSound = 1_000 * (Self.processSeconds - startCPU) }
        chunks.append(chunk)
    }

    func finish() { cpu = Self.processSeconds - startCPU }

    /// The sound at 16 kHz.
    func samples() throws -> [Int16] {
        guard let rate = chunks.first?.rate else { return [] }
        let samples = chunks.flatMap(\.samples)
        var resampler = try Resampler(from: rate, to: .hz16000)
        var result = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = result.withUnsafeMutableBufferPointer { output in
            samples.withUnsafeBufferPointer { resampler.process($0, into: output) }
        }
        return Array(result[..<count])
    }

    private static var processSeconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// Runs jobs at once, on the caller's thread, and hands their pieces on as they are made.
struct VoiceHost: AgentHost {
    struct NoNetwork: Error {}

    func sleep(for duration: Duration) async throws {}

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result { try work() }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {
        let (pieces, continuation) = AsyncThrowingStream<Element, any Error>.makeStream()
        Thread.detachNewThread {
            do {
                try work {
                    continuation.yield($0)
                    return true
                }
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        for try await piece in pieces { try await each(piece) }
    }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        throw NoNetwork()
    }
}
