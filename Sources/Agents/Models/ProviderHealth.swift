// How a provider of models has fared: what became of its turns, and whether it is worth another
// now. Who takes its place is ModelRouter's to say.
//
// After some failures in a row a provider is left alone for a while, so that turns do not wait for
// its timeout one after another; then one turn tries it, and its success ends the pause.

import Session
import Synchronization

/// How a provider is asked.
enum ProviderTurn {
    /// It is not paused.
    case ordinary
    /// It was paused, and this turn finds out whether it works again.
    case trial
}

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

    /// Whether it may be asked now; nil while it is paused. At the end of a pause one turn is a
    /// trial, and the pause starts again for all others until that turn has succeeded.
    func permit(at now: Instant) -> ProviderTurn? {
        state.withLock { state in
            guard state.failuresInARow >= maxFailures else { return .ordinary }
            guard state.pauseEnd <= now else {
                state.counts.skipped += 1
                return nil
            }
            state.pauseEnd = now + pause
            return .trial
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
    func handleFailed(_ turn: ProviderTurn, isItsFault: Bool, at now: Instant) {
        state.withLock { state in
            state.counts.failed += 1
            guard isItsFault else { return Self.endTrial(turn, in: &state, at: now) }
            state.failuresInARow += 1
            state.pauseEnd = now + pause
        }
    }

    /// The turn was cancelled.
    /// - Parameter hasAnswered: whether it had begun to answer, which shows that it works.
    func handleCancelled(_ turn: ProviderTurn, hasAnswered: Bool, at now: Instant) {
        state.withLock { state in
            state.counts.cancelled += 1
            if hasAnswered { state.failuresInARow = 0 }
            Self.endTrial(turn, in: &state, at: now)
        }
    }

    /// A trial without a result makes the next turn the trial. Otherwise a client that cancels its
    /// turns could keep a provider paused.
    private static func endTrial(_ turn: ProviderTurn, in state: inout State, at now: Instant) {
        if turn == .trial { state.pauseEnd = now }
    }

    /// It takes over a turn that another has failed.
    func handleFallback() { state.withLock { $0.counts.fallbacks += 1 } }
}
