// How long a user may think before a turn is over, by what the user has been asked. The session
// chooses it; TurnEndEstimator has what it does to a wait.

/// How patiently the end of a turn is awaited. A setting of the moment, beside the client's
/// eagerness, which is a setting of the session.
package enum Patience: UInt8, CaseIterable, Sendable {
    /// After a question that one word answers, as "Shall I book it?": a whole answer ends the turn
    /// sooner.
    case brief
    /// Anything else.
    case usual
    /// While a number, an address, a name or a spelling is being given: people pause between its
    /// parts, and each part may be the last.
    case long

    /// What it makes of a wait, which the timeout still limits.
    ///
    /// 0.7: at `medium` an answer in a sentence is over after 0.3 to 0.4 s instead of 0.5. 2: a group of
    /// dictated digits, whose end sounds like that of any other, waits 2 s at `medium` instead of 1
    /// (LoadTests/results/turns.md).
    var factor: Float {
        switch self {
        case .brief: 0.7
        case .usual: 1
        case .long: 2
        }
    }
}
