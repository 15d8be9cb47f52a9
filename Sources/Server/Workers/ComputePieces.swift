// The pieces of a streaming job, on their way from a worker's thread to the task that consumes
// them.
//
// Invariant: pieces arrive in order; the consumer waits only while no piece waits; an abandoned or
// finished queue takes no more pieces.

import Session
import Synchronization

/// A bounded queue with one producer, on any thread, and one consuming task.
final class ComputePieces<Element: Sendable>: Sendable {
    private typealias Consumer = CheckedContinuation<Element?, any Error>

    private struct State {
        var waiting: [Element] = []
        /// How many of `waiting` have been taken.
        var taken = 0
        var consumer: Consumer?
        var isFinished = false
        var failure: (any Error)?
        var isAbandoned = false
    }

    private let state = Mutex(State())
    private let limit: Int

    /// Creates a queue of at most `limit` pieces. The producer never waits, as it occupies a
    /// worker: one that runs too far ahead fails instead.
    init(limit: Int) { self.limit = limit }

    /// Whether the consumer wants no more.
    var isAbandoned: Bool { state.withLock { $0.isAbandoned } }

    /// Called by the producer. Returns false once the consumer wants no more.
    func append(_ piece: Element) -> Bool {
        let (consumer, isWanted) = state.withLock { state -> (Consumer?, Bool) in
            guard !state.isAbandoned, !state.isFinished else { return (nil, false) }
            if let consumer = state.consumer.take() { return (consumer, true) }
            guard state.waiting.count - state.taken < limit else {
                state.isFinished = true
                state.failure = AgentError.overloaded
                return (nil, false)
            }
            state.waiting.append(piece)
            return (nil, true)
        }
        consumer?.resume(returning: piece)
        return isWanted
    }

    /// Called by the producer at its end. An earlier failure stays.
    func finish(throwing failure: (any Error)?) {
        let consumer = state.withLock { state -> Consumer? in
            guard !state.isFinished else { return nil }
            state.isFinished = true
            state.failure = failure
            return state.consumer.take()
        }
        consumer?.resume(with: failure.map { .failure($0) } ?? .success(nil))
    }

    /// The consumer wants no more.
    func abandon() {
        let consumer = state.withLock { state -> Consumer? in
            state.isAbandoned = true
            state.waiting = []
            state.taken = 0
            return state.consumer.take()
        }
        consumer?.resume(throwing: CancellationError())
    }

    /// The next piece, or nil at the end.
    /// - Throws: the error of the job, or `CancellationError` once abandoned.
    func next() async throws -> Element? {
        try await withCheckedThrowingContinuation { continuation in
            let outcome = state.withLock { state in takeOrWait(continuation, &state) }
            if let outcome { continuation.resume(with: outcome) }
        }
    }

    private func takeOrWait(
        _ consumer: Consumer, _ state: inout State
    ) -> Result<Element?, any Error>? {
        if state.isAbandoned { return .failure(CancellationError()) }
        if state.taken < state.waiting.count {
            let piece = state.waiting[state.taken]
            state.taken += 1
            if state.taken == state.waiting.count {
                state.waiting.removeAll(keepingCapacity: true)
                state.taken = 0
            }
            return .success(piece)
        }
        if let failure = state.failure { return .failure(failure) }
        if state.isFinished { return .success(nil) }
        state.consumer = consumer
        return nil
    }
}
