// How a provider of models has fared: what became of its turns, and whether it is worth another
// now. Who takes its place is ModelRouter's to say.
//
// After some failures in a row a provider is left alone for a while, so that turns do not wait for
// its timeout one after another; then one turn tries it, and its success ends the pause.

import Session
import Synchronization

/// State of one provider, shared by all shards.
public final class ProviderHealth: Sendable {
    private struct State {
        var counts = ModelProviderCounts(name: "")
        var failuresInARow = 0
        /// Until when it is left alone, where it has failed often enough.
        var pauseEnd = Instant(nanoseconds: 0)
    }

    private let state = Mutex(State())
    private let maxFailures: Int
    private let pause: Duration

    /// Creates the state of a provider that has not been asked.
    /// - Parameters:
    ///   - maxFailures: failures in a row after which it is left alone. 3: two may be chance.
    ///   - pause: for how long. 30 s: a restart of a model server takes about as much, and one turn
    ///     in 30 s may be slow.
    public init(maxFailures: Int = 3, pause: Duration = .seconds(30)) {
        precondition(maxFailures > 0)
        self.maxFailures = maxFailures
        self.pause = pause
    }

    /// What became of its turns.
    func counts(of name: String) -> ModelProviderCounts {
        state.withLock { state in
            var counts = state.counts
            counts.name = name
            counts.isPaused = state.failuresInARow >= maxFailures
            return counts
        }
    }

    /// Whether it is to be asked now. At the end of a pause this is so once, and the pause starts
    /// again for all others until that turn has succeeded.
    func takesTurn(at now: Instant) -> Bool {
        state.withLock { state in
            guard state.failuresInARow >= maxFailures else { return true }
            guard state.pauseEnd <= now else {
                state.counts.skipped += 1
                return false
            }
            state.pauseEnd = now + pause
            return true
        }
    }

    /// It has answered a turn.
    func handleAnswered() {
        state.withLock { state in
            state.counts.completed += 1
            state.failuresInARow = 0
        }
    }

    /// It has failed a turn.
    /// - Parameter isItsFault: false where the request was wrong, which says nothing of it.
    func handleFailed(isItsFault: Bool, at now: Instant) {
        state.withLock { state in
            state.counts.failed += 1
            guard isItsFault else { return }
            state.failuresInARow += 1
            state.pauseEnd = now + pause
        }
    }

    /// The turn was cancelled.
    func handleCancelled() { state.withLock { $0.counts.cancelled += 1 } }

    /// It takes over a turn that another has failed.
    func handleFallback() { state.withLock { $0.counts.fallbacks += 1 } }
}
