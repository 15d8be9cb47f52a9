// The health of a provider of models: the outcomes of its requests, and whether it may get another
// now. ModelRouter chooses what takes its place.
//
// After some failures in a row a provider is paused, so that responses do not wait for its timeout
// one after another. At the end of the pause one request tries it, and its success ends the pause.

import Session
import Synchronization

/// Why a request may go to a provider.
enum ProviderPermit {
    /// The provider is not paused.
    case ordinary
    /// The pause has ended, and this request finds out whether the provider works again.
    case trial
}

/// State of one provider, shared by all shards.
public final class ProviderHealth: Sendable {
    private struct State {
        var counts = ModelProviderCounts(name: "")
        var failuresInARow = 0
        /// The end of the pause, where `failuresInARow` has reached the limit.
        var pauseEnd = Instant(nanoseconds: 0)
    }

    private let state = Mutex(State())
    private let maxFailures: Int
    private let pause: Duration

    /// Creates the state of a provider without requests so far.
    /// - Parameters:
    ///   - maxFailures: failures in a row that start a pause. 3: two may be chance.
    ///   - pause: its length. 30 s: about a restart of a model server; meanwhile, only one response
    ///     in 30 s waits for the trial.
    public init(maxFailures: Int = 3, pause: Duration = .seconds(30)) {
        precondition(maxFailures > 0)
        self.maxFailures = maxFailures
        self.pause = pause
    }

    /// The outcomes of its requests.
    func counts(of name: String) -> ModelProviderCounts {
        state.withLock { state in
            var counts = state.counts
            counts.name = name
            counts.isPaused = state.failuresInARow >= maxFailures
            return counts
        }
    }

    /// Whether a request may go to the provider now; nil while it is paused. At the end of a pause
    /// one request is the trial, and the pause starts again for all others until the trial has
    /// succeeded.
    func permit(at now: Instant) -> ProviderPermit? {
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

    /// Notes that a request was answered.
    func handleAnswered() {
        state.withLock { state in
            state.counts.completed += 1
            state.failuresInARow = 0
        }
    }

    /// Notes that a request has failed.
    /// - Parameter isItsFault: false where the request was at fault, which says nothing about the
    ///   provider.
    func handleFailed(_ permit: ProviderPermit, isItsFault: Bool, at now: Instant) {
        state.withLock { state in
            state.counts.failed += 1
            guard isItsFault else { return Self.endTrial(permit, in: &state, at: now) }
            state.failuresInARow += 1
            state.pauseEnd = now + pause
        }
    }

    /// Notes that the request was cancelled.
    /// - Parameter hasAnswered: whether the answer had begun, which shows that the provider works.
    func handleCancelled(_ permit: ProviderPermit, hasAnswered: Bool, at now: Instant) {
        state.withLock { state in
            state.counts.cancelled += 1
            if hasAnswered { state.failuresInARow = 0 }
            Self.endTrial(permit, in: &state, at: now)
        }
    }

    /// Notes that the request was not made.
    func handleWithdrawn(_ permit: ProviderPermit, at now: Instant) {
        state.withLock { Self.endTrial(permit, in: &$0, at: now) }
    }

    /// Makes the next request the trial when this one ended without a result. Otherwise a client
    /// that cancels its responses could keep a provider paused.
    private static func endTrial(_ permit: ProviderPermit, in state: inout State, at now: Instant) {
        if permit == .trial { state.pauseEnd = now }
    }

    /// The provider takes over a request that another has failed.
    func handleFallback() { state.withLock { $0.counts.fallbacks += 1 } }
}
