// The part of an operating system that a shard uses: eleven calls and a clock. `EpollIO` (beside
// this) is the kernel's; `SimulatedIO` (Tests/Simulation) is driven by a seed and a virtual clock,
// so that the same shard code runs under both.
//
// Invariant: no call blocks, except `wait(until:atMost:)`; no call is made from any but the shard's
// thread, except `wake`.

import Codec
import Session

/// A file descriptor, or the simulation's number for one.
package typealias IOHandle = Int32

/// The target of a readiness report or a deadline; travels through `epoll_data.u64`.
///
/// ```
///  63    60 59                    32 31                     0
/// ┌────────┬────────────────────────┬────────────────────────┐
/// │  kind  │         index          │       generation       │
/// └────────┴────────────────────────┴────────────────────────┘
/// ```
/// The generation tells a reused index from the one that a late report was meant for.
package struct EventToken: Hashable, Sendable {
    /// Kinds of targets.
    package enum Kind: UInt64, Sendable {
        /// A slot of the shard's connections.
        case connection
        /// The listening socket.
        case listener
        /// A file descriptor of an upstream transfer.
        case upstream
        /// A slot of the shard's sessions; no backend ever reports one.
        case session
        /// A file descriptor of a connection to a Redis server.
        case redis
        /// A file descriptor of a connection to another node.
        case relay
        /// Where successors ask for the listening sockets.
        case handover
    }

    /// The largest index, 2²⁸ − 1.
    package static let maxIndex = 1 << 28 - 1

    /// The bits as drawn above.
    package let rawValue: UInt64

    /// Takes the bits that a backend gives back.
    @inlinable
    package init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Packs a token.
    /// - Precondition: `index` is in 0…`maxIndex`.
    @inlinable
    package init(_ kind: Kind, index: Int, generation: UInt32) {
        precondition(index >= 0 && index <= EventToken.maxIndex)
        rawValue = kind.rawValue << 60 | UInt64(index) << 32 | UInt64(generation)
    }

    /// The kind of target; nil for bits that no token has.
    @inlinable
    package var kind: Kind? { Kind(rawValue: rawValue >> 60) }

    /// The slot or descriptor.
    @inlinable
    package var index: Int { Int(rawValue >> 32 & UInt64(EventToken.maxIndex)) }

    /// Which use of the index is meant.
    @inlinable
    package var generation: UInt32 { UInt32(truncatingIfNeeded: rawValue) }
}

/// The reports that a handle is watched for. Failures are always reported.
package struct Interest: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Bytes, a connection to accept, or the end of the stream.
    package static let reads = Interest(rawValue: 1)
    /// Room for bytes.
    package static let writes = Interest(rawValue: 2)
    /// Its reports may come a little late, together with the reports of other such handles. For
    /// connections that bring audio all the time.
    package static let batched = Interest(rawValue: 4)
}

/// One report of `wait(until:atMost:)`.
package struct Readiness: Sendable {
    /// The target, as given to `watch`.
    package var token: EventToken
    /// A read will not block.
    package var isReadable: Bool
    /// A write will not block.
    package var isWritable: Bool
    /// The peer reset the connection, or both directions are shut.
    package var hasFailed: Bool

    /// Creates a report.
    @inlinable
    package init(token: EventToken, isReadable: Bool, isWritable: Bool, hasFailed: Bool) {
        self.token = token
        self.isReadable = isReadable
        self.isWritable = isWritable
        self.hasFailed = hasFailed
    }
}

/// A failed system call.
package struct IOError: Error, Equatable, Sendable {
    /// The call, for example `accept4`.
    package var call: String
    /// Its `errno`.
    package var code: Int32

    /// Creates an error.
    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }
}

/// The outcome of a read, a write or an accept.
package enum IOOutcome: Equatable, Sendable {
    /// The number of bytes that were moved (1 or more), or the handle that was accepted.
    case done(Int)
    /// Nothing now; `wait(until:atMost:)` reports when there is.
    case wouldBlock
    /// The peer will send no more.
    case ended
    /// The call failed with this `errno`.
    case failed(Int32)
}

/// The operating system as a shard sees it. Level-triggered: readiness is reported again until it
/// is used up.
package protocol IO: AnyObject {
    /// The monotonic clock.
    var now: Instant { get }

    /// Makes a `wait(until:atMost:)` in progress, or the next one, return. Called from any thread, and
    /// safe even after the backend is gone.
    var wake: @Sendable () -> Void { get }

    /// Waits until a watched handle is ready, `wake` is called, or the deadline has come; nil waits
    /// without limit.
    /// - Parameter limit: how many reports are taken, those of `.batched` handles aside. Handles that are
    ///   left out come first in the next call.
    /// - Returns: how many reports there are; they stay valid until the next call.
    func wait(until deadline: Instant?, atMost limit: Int) -> Int

    /// A report of the last `wait(until:atMost:)`.
    /// - Precondition: `position` is below what that call returned.
    func readiness(at position: Int) -> Readiness

    /// Accepts one connection, non-blocking; its other options are inherited from the listener.
    /// - Parameter peer: is set to the address of the peer where one has connected.
    func accept(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome

    /// Accepts one connection although there is no descriptor left, with one that the backend
    /// keeps for this and takes again when something is closed. Only to refuse the peer and close.
    func acceptOnSpare(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome

    /// Reads the bytes that have come, up to the buffer's size.
    func read(_ handle: IOHandle, into buffer: UnsafeMutableRawBufferPointer) -> IOOutcome

    /// Writes the bytes that there is room for.
    /// - Precondition: `bytes` is not empty.
    func write(_ handle: IOHandle, _ bytes: UnsafeRawBufferPointer) -> IOOutcome

    /// The peer's address of a connection; `.unspecified` where it is not known.
    func peer(of handle: IOHandle) -> NetworkAddress

    /// Tells the peer that nothing more will be written; reading goes on.
    func finishWriting(_ handle: IOHandle)

    /// Closes a handle. A listener must not be watched any more, because another process may have
    /// it as well; a connection is forgotten with it, which spares its end a system call.
    func close(_ handle: IOHandle)

    /// Watches a handle, or changes what it is watched for.
    /// - Returns: 0, or the `errno` of the failure.
    func watch(
        _ handle: IOHandle, for interest: Interest, token: EventToken, isNew: Bool
    ) -> Int32

    /// Stops watching a handle.
    func unwatch(_ handle: IOHandle)
}
