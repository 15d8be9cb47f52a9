// The owner of a shard's listeners, and their end when the shard takes no new connections any more.
// There are three cases, of which ParleyServer chooses one at the start.
//
// Closing a listening socket resets the connections in its queue and the handshakes under way. On a
// port that is shared with the successor, the kernel therefore first directs new connections to it
// (SO_ATTACH_REUSEPORT_CBPF, socket(7)). Sockets of a supervisor are left alone, as the supervisor
// keeps them open.

import Codec
import Session
import Synchronization

/// The sockets of this server among all that listen to the port.
package final class SharedPort: Sendable {
    /// Time between steering new connections away and closing the sockets. 500 ms: a handshake that
    /// began before ends within a round trip.
    static let handshakeGrace = Duration.milliseconds(500)

    /// How many sockets of this server there were at the start. They come before those of any
    /// successor in the kernel's order, which is the order of `listen`.
    let sockets: Int
    private let open: Atomic<Int>

    /// - Parameter sockets: of this server, one per shard.
    package init(sockets: Int) {
        self.sockets = sockets
        open = Atomic(sockets)
    }

    /// One of them is about to be closed.
    /// - Returns: whether it is the last.
    func leave() -> Bool { open.subtract(1, ordering: .relaxed).newValue == 0 }
}

/// A shard that gets its share of the connections which another accepts.
package struct ShardSibling: Sendable {
    /// Takes a connection over. Any thread.
    let adopt: @Sendable (_ handle: IOHandle, _ peer: NetworkAddress) -> Void
    /// Makes the shard drain after a while. Any thread. It adopts the connections that it was given
    /// before.
    let drain: @Sendable (_ delay: Duration) -> Void
}

/// The owner of a shard's listeners.
package enum ListeningDuty: Sendable {
    /// The shard. Connections in their queues are accepted before they are closed.
    case own
    /// The shard, on a port that a successor may listen to as well.
    case shared(SharedPort)
    /// A supervisor, which keeps them open: connections in their queues are the successor's. The
    /// shard accepts for its siblings, too, one connection each in turn: several epolls on one
    /// socket would leave most connections to the thread that happens to be idle first.
    case inherited([ShardSibling])
}

extension Shard {
    /// The shard as another sees it.
    package var asSibling: ShardSibling {
        ShardSibling(adopt: adopt, drain: drain)
    }

    /// Prepares the listeners for their end.
    /// - Returns: how long they must still be served.
    func prepareToStopListening() -> Duration {
        guard case .shared(let port) = duty, let listener = acceptor.listeners.first else {
            return .zero
        }
        io.steer(pastSockets: port.sockets, groupOf: listener)
        return SharedPort.handshakeGrace
    }

    /// Stops accepting: new connections go to the other listeners of the port, wait for the next
    /// server of the supervisor, or fail.
    func stopListening() {
        switch duty {
        case .own: acceptWaiting()
        case .shared(let port):
            acceptWaiting()
            // A program that outlived its purpose would point past the successor's sockets.
            if port.leave() { acceptor.listeners.first.map(io.stopSteering) }
        case .inherited(let siblings):
            // Their mailboxes have the connections that were given to them before this.
            for sibling in siblings { sibling.drain(.zero) }
        }
        acceptor.closeListeners()
    }
}
