// The kernel as a shard sees it: an epoll, level-triggered, and an eventfd that other threads poke. A
// second epoll, inside the first, has the handles whose reports may be batched. It knows nothing of
// connections; it passes their tokens through `epoll_data.u64`. The server's clocks are read here and
// nowhere else.

import CLinux
import Codec
import Session
import Synchronization

/// The monotonic clock of the kernel. Every `Instant` of a running server comes from here.
public enum MonotonicClock {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    public static var now: Instant { read(CLOCK_MONOTONIC) }

    /// Processor time that the calling thread has used.
    static var usedByThread: Instant { read(CLOCK_THREAD_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Instant {
        var time = timespec()
        clock_gettime(clock, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }
}

/// The time of day, for tokens and for the times that the protocol reports. It may be set forwards
/// and back. Everything else uses the monotonic clock.
package enum WallClock {
    /// Seconds since 1970 (`CLOCK_REALTIME`).
    package static var seconds: Int { milliseconds / 1_000 }

    /// Milliseconds since 1970.
    package static var milliseconds: Int {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int(time.tv_sec) * 1_000 + Int(time.tv_nsec) / 1_000_000
    }
}

/// An eventfd with an owner: threads that still refer to it may signal it after the epoll is gone.
final class EventDescriptor: Sendable {
    let descriptor: Int32

    /// - Throws: `IOError` when the process is out of descriptors.
    init() throws(IOError) {
        descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard descriptor >= 0 else { throw IOError(call: "eventfd", code: parley_errno()) }
    }

    deinit { close(descriptor) }

    /// Makes the descriptor readable.
    func signal() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then the descriptor is readable anyhow.
        _ = write(descriptor, &one, 8)
    }

    /// Makes the eventfd unreadable again.
    func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }
}

extension NetworkAddress {
    /// The address of a socket that has one of either family; `unspecified` for other families.
    init(_ address: sockaddr_in6) {
        self = withUnsafeBytes(of: address) { bytes in
            let word = { (offset: Int) in
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            }
            switch Int32(address.sin6_family) {
            case AF_INET: return NetworkAddress(v4: UInt32(truncatingIfNeeded: word(0)))
            case AF_INET6: return NetworkAddress(high: word(8), low: word(16))
            default: return .unspecified
            }
        }
    }
}

/// The production backend.
package final class EpollIO: IO {
    /// Reports taken from either epoll at once, at most. The next call reports the other handles first.
    static let maxEventsPerWait = 64
    /// Marks the eventfd's own reports; no `EventToken` has kind 15.
    private static let wakeData = UInt64.max
    /// Marks the reports of the inner epoll.
    private static let batchData = UInt64.max - 1

    private let epoll: Int32
    /// Watches the handles whose interest has `.batched`.
    private let batchEpoll: Int32
    private var batching = ReadBatching()
    private let wakeEvent: EventDescriptor
    private let events: UnsafeMutablePointer<epoll_event>
    /// A spare descriptor. It is closed for a moment to accept a connection when the process has
    /// no other; −1 while there is none.
    private var spare: Int32 = -1
    /// Locked while a shard accepts with its spare descriptor: another shard must not take the
    /// freed descriptor, or clients in the first one's queue would wait until a connection ends.
    private static let accepting = Mutex(())
    package let wake: @Sendable () -> Void

    /// - Throws: `IOError` when the process is out of descriptors.
    package init() throws(IOError) {
        let wakeEvent = try EventDescriptor()
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        batchEpoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        self.wakeEvent = wakeEvent
        events = .allocate(capacity: 2 * EpollIO.maxEventsPerWait)
        wake = { wakeEvent.signal() }
        guard epoll >= 0, batchEpoll >= 0 else {
            throw IOError(call: "epoll_create1", code: parley_errno())
        }
        for (descriptor, data) in [
            (wakeEvent.descriptor, EpollIO.wakeData), (batchEpoll, EpollIO.batchData),
        ] {
            let added = parley_epoll_control(
                epoll, EPOLL_CTL_ADD, descriptor, EPOLLIN.rawValue, data)
            guard added == 0 else { throw IOError(call: "epoll_ctl", code: parley_errno()) }
        }
        keepSpare()
    }

    deinit {
        events.deallocate()
        for descriptor in [spare, batchEpoll, epoll] where descriptor >= 0 {
            _ = CLinux.close(descriptor)
        }
    }

    package var now: Instant { MonotonicClock.now }

    package func wait(until deadline: Instant?, atMost limit: Int) -> Int {
        var until = deadline
        if let due = batching.due { until = min(until ?? due, due) }
        // EINTR and nothing else can happen here; the shard simply takes another tick.
        let count = max(
            0,
            epoll_wait(
                epoll, events, Int32(min(limit, EpollIO.maxEventsPerWait)),
                milliseconds(until: until)))
        var kept = 0
        var isBatchReady = false
        for position in 0..<Int(count) {
            switch events[position].data.u64 {
            case EpollIO.wakeData: wakeEvent.clear()
            case EpollIO.batchData: isBatchReady = true
            default:
                if kept != position { events[kept] = events[position] }
                kept += 1
            }
        }
        guard isBatchReady || batching.due != nil else { return kept }
        return kept + takeBatch(behind: kept)
    }

    /// Takes the reports that may be batched, where they are due.
    /// - Parameter kept: the reports that there are already.
    /// - Returns: how many have joined them.
    private func takeBatch(behind kept: Int) -> Int {
        let now = MonotonicClock.now
        let wasHeld = batching.due != nil
        if let due = batching.due, now < due { return 0 }
        let count = Int(
            max(0, epoll_wait(batchEpoll, events + kept, Int32(EpollIO.maxEventsPerWait), 0)))
        batching.handle(count, leavesOthers: count == EpollIO.maxEventsPerWait, at: now)
        if wasHeld != (batching.due != nil) {
            // The inner epoll wakes the shard only while its reports are wanted at once.
            _ = parley_epoll_control(
                epoll, EPOLL_CTL_MOD, batchEpoll, wasHeld ? EPOLLIN.rawValue : 0,
                EpollIO.batchData)
        }
        return count
    }

    package func readiness(at position: Int) -> Readiness {
        let bits = events[position].events
        return Readiness(
            token: EventToken(rawValue: events[position].data.u64),
            isReadable: bits & EPOLLIN.rawValue != 0,
            isWritable: bits & EPOLLOUT.rawValue != 0,
            hasFailed: bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0)
    }

    package func accept(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome {
        EpollIO.accepting.withLock { _ in acceptNext(from: listener, peer: &peer) }
    }

    private func acceptNext(
        from listener: IOHandle, peer: inout NetworkAddress
    ) -> IOOutcome {
        // Room for both families; of a longer address, as of a Unix-domain socket, nothing counts
        // but the family.
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let handle = withUnsafeMutableBytes(of: &address) {
            parley_accept(
                listener, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
        }
        guard handle >= 0 else { return failure() }
        peer = NetworkAddress(address)
        return .done(Int(handle))
    }

    package func acceptOnSpare(
        from listener: IOHandle, peer: inout NetworkAddress
    ) -> IOOutcome {
        if spare < 0 { keepSpare() }
        guard spare >= 0 else { return .failed(EMFILE) }
        return EpollIO.accepting.withLock { _ in
            _ = CLinux.close(spare)
            spare = -1
            let outcome = acceptNext(from: listener, peer: &peer)
            // With a handle in its place, the spare comes back when that is closed.
            if case .done = outcome { return outcome }
            keepSpare()
            return outcome
        }
    }

    package func read(
        _ handle: IOHandle, into buffer: UnsafeMutableRawBufferPointer
    ) -> IOOutcome {
        let count = parley_receive(handle, buffer.baseAddress, buffer.count)
        if count > 0 { return .done(count) }
        return count == 0 ? .ended : failure()
    }

    package func write(_ handle: IOHandle, _ bytes: UnsafeRawBufferPointer) -> IOOutcome {
        let count = parley_send(handle, bytes.baseAddress, bytes.count)
        return count > 0 ? .done(count) : failure()
    }

    package func peer(of handle: IOHandle) -> NetworkAddress {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let status = withUnsafeMutableBytes(of: &address) {
            getpeername(handle, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
        }
        return status == 0 ? NetworkAddress(address) : .unspecified
    }

    package func finishWriting(_ handle: IOHandle) {
        _ = CLinux.shutdown(handle, Int32(SHUT_WR))
    }

    package func close(_ handle: IOHandle) {
        guard spare < 0 else {
            _ = CLinux.close(handle)
            return
        }
        EpollIO.accepting.withLock { _ in
            _ = CLinux.close(handle)
            keepSpare()
        }
    }

    /// Opens the spare descriptor. Where another thread took the free one first, the next close
    /// tries again.
    private func keepSpare() { spare = eventfd(0, Int32(EFD_CLOEXEC)) }

    package func watch(
        _ handle: IOHandle, for interest: Interest, token: EventToken, isNew: Bool
    ) -> Int32 {
        var bits: UInt32 = 0
        if interest.contains(.reads) { bits |= EPOLLIN.rawValue }
        if interest.contains(.writes) { bits |= EPOLLOUT.rawValue }
        let home = interest.contains(.batched) ? batchEpoll : epoll
        let operation = isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
        guard parley_epoll_control(home, operation, handle, bits, token.rawValue) != 0 else {
            return 0
        }
        let code = parley_errno()
        guard code == ENOENT, !isNew else { return code }
        // It is in the other epoll.
        unwatch(handle)
        let moved = parley_epoll_control(home, EPOLL_CTL_ADD, handle, bits, token.rawValue)
        return moved == 0 ? 0 : parley_errno()
    }

    package func unwatch(_ handle: IOHandle) {
        guard parley_epoll_control(epoll, EPOLL_CTL_DEL, handle, 0, 0) != 0 else { return }
        _ = parley_epoll_control(batchEpoll, EPOLL_CTL_DEL, handle, 0, 0)
    }

    private func failure() -> IOOutcome {
        let code = parley_errno()
        return code == EAGAIN || code == EINTR ? .wouldBlock : .failed(code)
    }

    /// Rounded up: a wait that ends early would only spin until the deadline.
    private func milliseconds(until deadline: Instant?) -> Int32 {
        guard let deadline else { return -1 }
        let left = deadline.nanoseconds - MonotonicClock.now.nanoseconds
        guard left > 0 else { return 0 }
        return Int32(clamping: (left - 1) / 1_000_000 + 1)
    }
}
