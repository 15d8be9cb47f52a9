// What a streaming job makes, on its way from a worker's thread to the task that consumes it.
//
// Invariant: pieces arrive in order; a consumer waits only while nothing waits for it; once
// abandoned or finished, nothing more is taken in.

import Session
import Synchronization

/// A bounded queue with one producer, on any thread, and one consuming task.
final class ComputePieces<Element: Sendable>: Sendable {
    private typealias Consumer = CheckedContinuation<Element?, any Error>

    private struct State {
        var waiting: [Element] = []
        /// How many of `waiting` are taken.
        var taken = 0
        var consumer: Consumer?
        var isFinished = false
        var failure: (any Error)?
        var isAbandoned = false
    }

    private let state = Mutex(State())
    private let limit: Int

    /// Creates a queue of at most `limit` pieces. The producer is never held up: it has a worker
    /// that others wait for, so one that runs too far ahead fails instead.
    init(limit: Int) { self.limit = limit }

    /// Whether nobody wants more.
    var isAbandoned: Bool { state.withLock { $0.isAbandoned } }

    /// Called by the producer. Returns false once nobody wants more.
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

    /// Called by the producer at its end. A failure that came before stays.
    func finish(throwing failure: (any Error)?) {
        let consumer = state.withLock { state -> Consumer? in
            guard !state.isFinished else { return nil }
            state.isFinished = true
            state.failure = failure
            return state.consumer.take()
        }
        guard let consumer else { return }
        if let failure {
            consumer.resume(throwing: failure)
        } else {
            consumer.resume(returning: nil)
        }
    }

    /// Nobody wants more.
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
    /// - Throws: what ended the job, or `CancellationError` once abandoned.
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
