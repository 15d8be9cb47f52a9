// The event loop of a shard, for the clients that talk to other services: UpstreamHTTP, RedisClient
// and NodeRelays. Each has a port with tokens of its own kind, and one timer. No protocol lives here.

import Session

/// A client's view of its shard. Confined to the shard's thread.
final class UpstreamPort<Backend: IO>: UpstreamEventLoop {
    private let io: Backend
    private let kind: EventToken.Kind
    /// Generation of each watched descriptor, as libcurl's numbers are soon reused.
    @exclusivity(unchecked) private var watches: [Int32: UInt32] = [:]  // 68 instructions an echo.
    private var nextGeneration: UInt32 = 0
    /// When the timer fires.
    private(set) var deadline: Instant?

    /// - Parameter kind: of the tokens under which the backend reports its descriptors.
    init(io: Backend, kind: EventToken.Kind) { (self.io, self.kind) = (io, kind) }

    /// Descriptors that are watched.
    var watchCount: Int { watches.count }

    var now: Instant { io.now }

    func watch(fd: Int32, readable: Bool, writable: Bool) {
        var interest: Interest = []
        if readable { interest.insert(.reads) }
        if writable { interest.insert(.writes) }
        let known = watches[fd]
        let generation = known ?? nextGeneration
        if known == nil { nextGeneration &+= 1 }
        let token = EventToken(kind, index: Int(fd), generation: generation)
        // A failure is not reported here: the transfer ends by its time limit.
        if io.watch(fd, for: interest, token: token, isNew: known == nil) == 0 {
            watches[fd] = generation
        }
    }

    func unwatch(fd: Int32) {
        guard watches.removeValue(forKey: fd) != nil else { return }
        io.unwatch(fd)
    }

    func setUpstreamTimer(at instant: Instant?) { deadline = instant }

    /// The descriptor of a report, or nil when the report is for one that is gone.
    func descriptor(of token: EventToken) -> Int32? {
        let descriptor = Int32(token.index)
        return watches[descriptor] == token.generation ? descriptor : nil
    }

    /// Whether the timer has fired; it fires once.
    func takeExpired(at now: Instant) -> Bool {
        guard let deadline, deadline <= now else { return false }
        self.deadline = nil
        return true
    }
}
