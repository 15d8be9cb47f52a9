// How long a tick handles messages of connections that send one upon another. The count of messages bounds
// a connection's share of a tick (`max-messages-per-tick`), but says little of its time. A read of updates
// of a session with 60 tools takes 4 ms, and 16 such connections sixteen times that.
//
// The messages that the tick before has left come first. They share the tick's time evenly. A connection
// that is read anew has one message handled in any case, so that a client with one message never waits
// for those with many. Its messages behind that one may wait for the next tick.
//
// An HTTP request can cost as much as twenty messages (LoadTests/results/floods.md) and carries no live
// audio. Once the tick's time is over, requests wait for the next tick.
//
// Not here: the clock. Shard asks it, and seldom: after messages of some weight.

import Session

/// The time for messages in one tick.
struct MessageTime {
    /// 1 ms: input that comes meanwhile waits no longer than that, and the rest of a tick costs
    /// little beside it.
    static let nanosecondsPerTick = Int64(1_000_000)
    /// The weight of the messages between two looks at the clock. 16: beside this many messages the
    /// looks cost little.
    private static let weightPerLook = 16
    /// The same once the time is over. 2: a message and the request for a reply to it.
    private static let weightOverTime = 2

    /// When the messages of the tick began to be handled.
    private var began = Instant(nanoseconds: 0)
    /// When the time is over of the connection whose messages are being handled.
    private var end = Instant(nanoseconds: 0)
    /// Whether the tick's time is over.
    private var isOver = false

    /// A tick begins.
    mutating func begin(at now: Instant) {
        began = now
        isOver = false
        endShares()
    }

    /// Begins the turn of a connection that the tick before has left.
    /// - Parameters:
    ///   - position: how many of these have had their turn.
    ///   - count: how many of these there are.
    mutating func beginShare(_ position: Int, of count: Int) {
        let share = Self.nanosecondsPerTick * Int64(position + 1) / Int64(count)
        end = Instant(nanoseconds: began.nanoseconds + share)
    }

    /// All of these have had their turn. The time that they did not need is left for connections that are
    /// read anew.
    mutating func endShares() {
        end = Instant(nanoseconds: began.nanoseconds + Self.nanosecondsPerTick)
    }

    /// Whether the tick's time is over.
    /// - Parameter now: the time, by the clock.
    mutating func isSpent(at now: Instant) -> Bool {
        if now.nanoseconds >= began.nanoseconds + Self.nanosecondsPerTick { isOver = true }
        return isOver
    }

    /// Whether enough was handled to look at the clock. The weight of a message is the number of
    /// messages that it counts as, plus one for each KiB.
    func needsLook(after messages: Int, bytes: Int) -> Bool {
        messages + bytes >> 10 >= (isOver ? Self.weightOverTime : Self.weightPerLook)
    }

    /// Whether the connection whose messages are handled has to leave the rest of them.
    /// - Parameter now: the time, by the clock.
    mutating func isShareSpent(at now: Instant) -> Bool { isSpent(at: now) || now >= end }
}
