// The owner of a shard's listeners, and their end when the shard takes no new connections any more.
// There are three cases, of which ParleyServer chooses one at the start.
//
// When the last process closes a listening socket, the kernel resets the connections in its queue
// and its handshakes under way. A successor on a shared port has the same sockets (PortHandover),
// and so has a supervisor. Closing them here resets nothing then.

import Codec
import Session

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
    /// The shard, on a port that a successor may share. Connections in the queues are accepted as
    /// well, as there may be no successor. The end waits for the first requests of clients: the
    /// successor serves meanwhile.
    case shared
    /// A supervisor, which keeps them open: connections in their queues are the successor's. The
    /// shard accepts for its siblings, too, one connection each in turn: several epolls on one
    /// socket would leave most connections to the thread that happens to be idle first.
    case inherited([ShardSibling])
}
