// The accepting of a shard: its listeners, their owner, the shard that gets the next connection, and
// the pause that follows when the process runs out of descriptors. ShardListener handles accepted
// connections, timers and log lines.
//
// Invariant: during a pause no listener is watched. A listener stays readable while the process
// has no descriptors, so that a watched one would make the loop spin.

import CLinux
import Codec
import Session

/// The outcome of an attempt to accept.
enum AcceptOutcome: Equatable {
    /// A peer has connected.
    case accepted(IOHandle, from: NetworkAddress)
    /// No connection waits.
    case none
    /// The peer left while it waited; the next one may be fine.
    case peerLeft
    /// Nothing can be accepted now: the `errno`.
    case failed(Int32)

    /// Whether the failure is a want of descriptors, of the process or of the machine.
    var isOutOfDescriptors: Bool { self == .failed(EMFILE) || self == .failed(ENFILE) }
}

/// The listeners of one shard.
struct Acceptor<Backend: IO> {
    /// Time without a pause after which the next pause is worth a line in the log again. 10 s.
    static var calm: Duration { .seconds(10) }

    /// The owner of the listeners.
    var duty = ListeningDuty.own
    /// The listening sockets, while the shard has any.
    private(set) var listeners: [IOHandle] = []
    /// Whether accepting is paused for want of descriptors or memory.
    private(set) var isPaused = false
    /// When accepting was last paused, until that is long enough ago.
    private var lastPause: Instant?
    /// Which shard got the last connection: 0 is this one, the others are its siblings.
    private var lastOwner = 0
    private let io: Backend

    /// Without a listener.
    init(io: Backend) { self.io = io }

    // MARK: Listeners

    /// Takes a listening, non-blocking socket over and watches it.
    /// - Throws: `IOError` when it cannot be watched.
    mutating func listen(on listener: IOHandle) throws(IOError) {
        let code = watch(listener)
        guard code == 0 else { throw IOError(call: "epoll_ctl", code: code) }
        listeners.append(listener)
    }

    private func watch(_ listener: IOHandle) -> Int32 {
        let token = EventToken(.listener, index: 0, generation: 0)
        return io.watch(listener, for: .reads, token: token, isNew: true)
    }

    /// Closes all listeners.
    mutating func closeListeners() {
        for listener in listeners {
            if !isPaused { io.unwatch(listener) }
            io.close(listener)
        }
        listeners = []
    }

    // MARK: Accepting

    /// Accepts one connection.
    func accept(from listener: IOHandle) -> AcceptOutcome {
        var peer = NetworkAddress.unspecified
        switch io.accept(from: listener, peer: &peer) {
        case .done(let handle): return .accepted(IOHandle(truncatingIfNeeded: handle), from: peer)
        case .wouldBlock, .ended: return .none
        case .failed(ECONNABORTED), .failed(EPROTO): return .peerLeft
        case .failed(let code): return .failed(code)
        }
    }

    /// Accepts one connection with the descriptor that the backend keeps for refusing a
    /// client.
    /// - Returns: nil where none waits, or the descriptor is in use.
    func acceptOnSpare(from listener: IOHandle) -> (handle: IOHandle, peer: NetworkAddress)? {
        var peer = NetworkAddress.unspecified
        guard case .done(let handle) = io.acceptOnSpare(from: listener, peer: &peer)
        else { return nil }
        return (IOHandle(truncatingIfNeeded: handle), peer)
    }

    /// The next shard in order to get a connection; nil: this one.
    mutating func nextOwner() -> ShardSibling? {
        guard case .inherited(let siblings) = duty, !siblings.isEmpty else { return nil }
        lastOwner = lastOwner == siblings.count ? 0 : lastOwner + 1
        return lastOwner == 0 ? nil : siblings[lastOwner - 1]
    }

    // MARK: Pauses

    /// A connection was accepted.
    /// - Returns: whether this ends a time of pauses, which is worth a line in the log.
    mutating func handleAccepted(at now: Instant) -> Bool {
        guard let last = lastPause, now - last >= Self.calm else { return false }
        lastPause = nil
        return true
    }

    /// Stops watching the listeners until `resume()`.
    /// - Returns: whether this begins a time of pauses, which is worth a line in the log. At the
    ///   limit one pause follows the other, with an accept between two when a client left.
    mutating func pause(at now: Instant) -> Bool {
        isPaused = true
        listeners.forEach(io.unwatch)
        let isFirst = lastPause.map { now - $0 >= Self.calm } ?? true
        lastPause = now
        return isFirst
    }

    /// Watches the listeners again.
    /// - Returns: 0, or the `errno` of the failure, after which another pause must follow.
    mutating func resume() -> Int32 {
        guard isPaused, !listeners.isEmpty else { return 0 }
        isPaused = false
        for listener in listeners {
            let code = watch(listener)
            guard code == 0 else { return code }
        }
        return 0
    }
}
