// The accepting of a shard: its listeners, their owner, their hand-over, the shard that gets the
// next connection, and the pause that follows when the process runs out of descriptors.
// ShardListener handles accepted connections, timers and log lines.
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
    /// Passes the sockets of the port on to a successor. One shard of a server that shares its port
    /// has it, until it closes its listeners.
    private(set) var handover: PortHandover?
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
        try watchFirst(listener, .listener)
        listeners.append(listener)
    }

    /// Takes a hand-over and watches for a successor.
    /// - Throws: `IOError` when it cannot be watched.
    mutating func offer(_ handover: PortHandover) throws(IOError) {
        try watchFirst(handover.handle, .handover)
        self.handover = handover
    }

    private func watchFirst(_ handle: IOHandle, _ kind: EventToken.Kind) throws(IOError) {
        let code = watch(handle, kind)
        guard code == 0 else { throw IOError(call: "epoll_ctl", code: code) }
    }

    private func watch(_ handle: IOHandle, _ kind: EventToken.Kind) -> Int32 {
        let token = EventToken(kind, index: 0, generation: 0)
        return io.watch(handle, for: .reads, token: token, isNew: true)
    }

    /// All sockets that connections are accepted from, except during a pause.
    private var watched: [(handle: IOHandle, kind: EventToken.Kind)] {
        listeners.map { ($0, .listener) } + (handover.map { [($0.handle, .handover)] } ?? [])
    }

    /// Closes all listeners, and ends the hand-over.
    mutating func closeListeners() {
        if !isPaused { unwatchAll() }
        listeners.forEach(io.close)
        listeners = []
        // It closes its own descriptors.
        handover = nil
    }

    private func unwatchAll() {
        for (handle, _) in watched { io.unwatch(handle) }
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

    /// The next shard in order to get a connection, or nil for this one.
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
        unwatchAll()
        let isFirst = lastPause.map { now - $0 >= Self.calm } ?? true
        lastPause = now
        return isFirst
    }

    /// Watches the listeners again.
    /// - Returns: 0, or the `errno` of the failure, after which another pause must follow.
    mutating func resume() -> Int32 {
        guard isPaused, !listeners.isEmpty else { return 0 }
        isPaused = false
        for (handle, kind) in watched {
            let code = watch(handle, kind)
            guard code == 0 else { return code }
        }
        return 0
    }
}
