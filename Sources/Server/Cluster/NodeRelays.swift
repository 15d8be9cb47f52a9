// The sockets of a shard's relays on its event loop. A shard without one pays nothing.
//
// Invariant: confined to the shard's thread; at most `maxRelays` at once. A relay is in the table from
// its beginning to `end`, and its stream is closed with it.

import Codec
import Session

/// The relays of one shard.
final class NodeRelays: OutgoingSocketOwner {
    /// Relays of one shard. 1,024: each takes a descriptor beside its client's.
    static let maxRelays = 1_024
    /// Bytes that are read at once. 16 KiB, a record of TLS.
    private static let bufferBytes = 16 << 10

    /// Opens a stream to a node's URL; a test sets it.
    lazy var connect: (_ url: String) -> any RelayStream = { [unowned self] url in
        OutgoingSocket(to: url, authorities: authorities, owner: self)
    }
    /// The buffer of the last read, which all relays share.
    var buffer: UnsafeMutableRawBufferPointer {
        if let allocated { return allocated }
        let made = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Self.bufferBytes, alignment: 16)
        allocated = made
        return made
    }
    private var allocated: UnsafeMutableRawBufferPointer?
    private let loop: any UpstreamEventLoop
    private let authorities: String?
    private var relays: [ObjectIdentifier: NodeRelay] = [:]
    private var shares = CallerShares()
    private var connecting: [NodeRelay] = []
    private var descriptors: [Int32: OutgoingSocket] = [:]

    /// - Parameter authorities: PEM file for nodes behind TLS. The default is the system's
    ///   authorities.
    init(loop: any UpstreamEventLoop, authorities: String?) {
        (self.loop, self.authorities) = (loop, authorities)
    }

    deinit { allocated?.deallocate() }

    /// Relays under way.
    var count: Int { relays.count }
    /// Whether one more can begin now for a caller.
    func admits(_ caller: CallerTag) -> Bool {
        shares.admits(caller, taken: relays.count, of: Self.maxRelays)
    }

    /// A relay begins.
    func insert(_ relay: NodeRelay) {
        relays[ObjectIdentifier(relay.stream)] = relay
        shares.add(relay.caller)
        connecting.append(relay)
        armTimer()
    }

    /// A relay is over.
    func end(_ relay: NodeRelay) {
        guard relays.removeValue(forKey: ObjectIdentifier(relay.stream)) != nil else { return }
        shares.remove(relay.caller)
        connecting.removeAll { $0 === relay }
        relay.stream.close()
        armTimer()
    }

    // MARK: What the loop calls

    /// A watched descriptor is ready.
    /// - Returns: the connection whose relay can go on.
    func handleReady(
        fd: Int32, readable: Bool, writable: Bool, failed: Bool
    ) -> EventToken? {
        guard let socket = descriptors[fd], let relay = relays[ObjectIdentifier(socket)] else {
            return nil
        }
        if socket.state == .connecting {
            socket.handleReady(fd: fd, readable: readable, writable: writable, failed: failed)
            forgetConnected()
        }
        return relay.connection
    }

    /// The timer has fired.
    /// - Returns: the connections whose relays can go on.
    func handleTimer() -> [EventToken] {
        let due = connecting.filter { $0.stream.deadline.map { $0 <= loop.now } ?? false }
        for relay in due { relay.stream.handleTimer() }
        forgetConnected()
        return due.map(\.connection)
    }

    private func forgetConnected() {
        connecting.removeAll { $0.stream.state != .connecting }
        armTimer()
    }

    private func armTimer() {
        loop.setUpstreamTimer(at: connecting.compactMap(\.stream.deadline).min())
    }

    // MARK: What sockets call

    var now: Instant { loop.now }

    func watch(fd: Int32, readable: Bool, writable: Bool, of socket: OutgoingSocket) {
        descriptors[fd] = socket
        loop.watch(fd: fd, readable: readable, writable: writable)
    }

    func unwatch(fd: Int32) {
        guard descriptors.removeValue(forKey: fd) != nil else { return }
        loop.unwatch(fd: fd)
    }
}
