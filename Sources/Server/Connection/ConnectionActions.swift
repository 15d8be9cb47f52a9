// The changes of a connection's state, and what each asks the loop to do. A change is a method of
// `Connection` that knows no shard and returns actions; ShardActions is the one place that
// carries them out. So a change cannot forget a part of what follows, and can be tested without a
// loop.
//
//   settle   its ledger is read again at the end of the tick
//   rearm    its entry in the deadline queue is early enough for what it now waits for
//   watch    the backend watches it for what it can use now, no more and no less
//   flush    its output is written in this tick
//   resume   its pending messages are handled in the next tick
//   remove   its slot is freed at the end of the tick
//
// Not here: the meaning of HTTP requests and of messages, nor when a change is due.

import Session

/// The work of the loop that follows a change of a connection's state.
struct ConnectionActions: OptionSet {
    let rawValue: UInt8

    static let settle = ConnectionActions(rawValue: 1)
    static let rearm = ConnectionActions(rawValue: 2)
    static let watch = ConnectionActions(rawValue: 4)
    static let flush = ConnectionActions(rawValue: 8)
    static let resume = ConnectionActions(rawValue: 16)
    static let remove = ConnectionActions(rawValue: 32)
}

/// Why a connection takes in no messages.
struct InputPause: OptionSet {
    let rawValue: UInt8
    /// The output of an echo that waits leaves no room for more.
    static let room = InputPause(rawValue: 1)
    /// Its budget of work is used up.
    static let work = InputPause(rawValue: 2)
}

extension Connection {
    /// Bytes came: the peer is alive.
    @inline(__always)
    func handleReceived(at peerTime: Instant) -> ConnectionActions {
        lastReceived = peerTime
        guard isPinged else { return [] }
        // The entry waited for the end; now the next ping is due before that.
        isPinged = false
        return .rearm
    }

    /// Keeps bytes that this tick does not handle. Nothing more is read before they are.
    func keepPending(_ bytes: [UInt8]) -> ConnectionActions {
        pending = bytes
        // A connection that is paused is queued when it goes on.
        return pauses.isEmpty ? [.watch, .resume] : .watch
    }

    /// More than the soft limit of output waits.
    func handleSoftLimit(_ backlog: OutputBacklog, at peerTime: Instant) -> ConnectionActions {
        guard backlog.overSoftLimitSince == nil else { return [] }
        backlog.overSoftLimitSince = peerTime
        return .rearm
    }

    /// No more messages are taken in.
    func stopTakingMessages(for reason: InputPause) -> ConnectionActions {
        pauses.insert(reason)
        return .watch
    }

    /// A reason for that is gone. Without another, messages are taken in again, those first that are
    /// pending.
    func takeMessagesAgain(after reason: InputPause) -> ConnectionActions {
        guard !pauses.isDisjoint(with: reason) else { return [] }
        pauses.subtract(reason)
        guard pauses.isEmpty else { return [] }
        return pending.isEmpty ? .watch : [.watch, .resume]
    }

    /// Our Close is on its way, and the peer's is awaited.
    func beginClosing(at peerTime: Instant) -> ConnectionActions {
        state = .closing
        phaseStart = peerTime
        return takeMessagesAgain(after: [.room, .work]).union(.rearm)
    }

    /// The last bytes are on their way; input is discarded from now on.
    func beginLingering(at peerTime: Instant) -> ConnectionActions {
        http = nil
        pending = []
        state = .lingering
        phaseStart = peerTime
        // Where reading was stopped because the client did not read, it goes on: input is
        // discarded now, and the peer's end is awaited.
        return [.settle, .rearm, .watch, .flush]
    }

    /// The connection is over.
    func beginRemoval() -> ConnectionActions {
        state = .closed
        return .remove
    }
}
