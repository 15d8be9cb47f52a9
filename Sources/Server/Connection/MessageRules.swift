// Limits of input that costs a WebSocket client next to nothing: floods of control frames, tiny
// fragments, empty messages and refused events; and messages that never end. Limits in bytes stop
// none of it. The state is in Connection, and ShardFloods acts on it. Whole messages with content have a
// price by the work that they cause: see WorkPrice.

import Session

/// The rules for the messages of one shard's clients.
struct MessageRules {
    /// The rate of what costs a client nothing.
    let floodRate: TokenRate
    /// The rate of work that messages cause, in units of WorkPrice.
    let workRate: TokenRate
    private let pace: TransferPace
    /// Time that the longest message may take. Control frames within a message count as bytes of it,
    /// and must not extend its time for ever.
    private let longest: Duration

    init(_ settings: WebSocketSettings) {
        floodRate = TokenRate(
            perSecond: settings.maxNuisancesPerSecond, burst: settings.maxNuisanceBurst)
        workRate = TokenRate(
            perSecond: settings.maxTurnsPerSecond * WorkPrice.turn,
            burst: max(1, settings.maxTurnsPerSecond) * WorkPrice.turn * 2)
        pace = TransferPace(
            grace: settings.messageGrace, bytesPerSecond: settings.minMessageBytesPerSecond)
        longest = pace.grace + pace.credit(forBytes: settings.maxMessageBytes)
    }

    /// By when an unfinished message must have ended, now that more of it has come.
    /// - Parameter due: the time before that; `Connection.noMessageDue` for its first bytes.
    @inline(__always)
    func messageDue(_ due: Instant, after count: Int, at peerTime: Instant) -> Instant {
        let start = due == Connection.noMessageDue ? peerTime + pace.grace : due
        return min(start + pace.credit(forBytes: count), peerTime + longest)
    }
}
