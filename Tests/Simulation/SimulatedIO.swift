// A simulated kernel for one shard: sockets in memory, a clock that moves only when no work is
// left, and the faults of real networks, chosen by a seed. Like the real kernel it is
// level-triggered and reuses the lowest free handle.
//
// Invariant: the same seed and the same calls give the same answers.

import CLinux
import Codec
import Server
import Session

/// The faults of the simulated kernel.
package struct SimulatedFaults: Sendable {
    /// Probability that a read returns only part of the available bytes.
    package var splitReadPercent = 0
    /// Probability that a write accepts only part of the bytes.
    package var shortWritePercent = 0
    /// Probability that a read or write would block although readiness was reported.
    package var wouldBlockPercent = 0

    /// No faults.
    package init() {}

    /// Frequent faults, for tests whose outcome must not depend on them.
    package static var harsh: SimulatedFaults {
        var faults = SimulatedFaults()
        faults.splitReadPercent = 60
        faults.shortWritePercent = 40
        faults.wouldBlockPercent = 20
        return faults
    }
}

/// One connection, with the state of both ends.
final class SimulatedSocket {
    /// Bytes sent by the peer and not read by the server.
    var inbound: [UInt8] = []
    /// Bytes written by the server and not read by the peer.
    var outbound: [UInt8] = []
    /// Bytes that fit into `outbound`. It fills up if the peer does not read.
    var window: Int
    var peerEnded = false
    var serverEnded = false
    var serverClosed = false
    var isReset = false
    /// The peer's address.
    let address: NetworkAddress

    init(window: Int, address: NetworkAddress) {
        self.window = window
        self.address = address
    }
}

/// The simulated backend.
package final class SimulatedIO: IO {
    private struct Watch {
        var interest: Interest
        var token: EventToken
    }

    /// The listening handle, for `Shard.listen(on:)`.
    package static let listener: IOHandle = 0

    private var time = Instant(nanoseconds: 0)
    /// How far each look at the clock moves it on: the work of a tick takes no time otherwise.
    package var timePerLook = Duration.zero
    package var now: Instant {
        if timePerLook > .zero { time = time + timePerLook }
        return time
    }
    /// The clock does not advance beyond this time.
    package var horizon = Instant(nanoseconds: 0)
    /// Whether the last wait found no work up to the horizon.
    package private(set) var isIdle = false
    /// Number of calls of `wait`.
    package private(set) var waits = 0
    /// How many reports the last wait was to take.
    package private(set) var reportLimit = 0
    /// Errors with which the next accepts fail, in order.
    package var acceptFailures: [Int32] = []
    /// Maximum open handles without the listener; nil: no limit.
    package var handleLimit: Int?
    /// Readiness reports that the next wait delivers first, true or not: for stale tokens.
    package var injectedReports: [Readiness] = []
    /// Whether bytes and ends are not reported, as if they exceeded what one wait can report.
    package var hidesReadiness = false
    package let wake: @Sendable () -> Void

    private let faults: SimulatedFaults
    private var generator: SeededGenerator
    private var sockets: [IOHandle: SimulatedSocket] = [:]
    private var watches: [IOHandle: Watch] = [:]
    private var backlog: [SimulatedSocket] = []
    private var isListening = true
    private var reports: [Readiness] = []
    /// The last handle that the last wait reported, where it left others out.
    private var lastReported: IOHandle?

    /// Creates a kernel at time 0.
    package init(seed: UInt64, faults: SimulatedFaults = SimulatedFaults()) {
        generator = SeededGenerator(seed: seed)
        self.faults = faults
        // There is one thread: a caller that wakes the shard has already queued its message.
        wake = {}
    }

    /// Whether the next wait would report anything.
    package var hasWork: Bool { !injectedReports.isEmpty || !readyReports().isEmpty }

    /// Number of open handles, for leak tests.
    package var openHandles: Int { sockets.count }

    /// Connections that are open and not watched, for leak tests.
    package var unwatchedHandles: [IOHandle] {
        sockets.keys.filter { watches[$0] == nil }.sorted()
    }

    /// A new connection of a peer, completed by the kernel and not accepted yet.
    func connect(window: Int, from address: NetworkAddress) -> SimulatedSocket {
        let socket = SimulatedSocket(window: window, address: address)
        if isListening { backlog.append(socket) } else { socket.isReset = true }
        return socket
    }

    /// Lets time pass without serving anything, like a stopped process.
    package func suspend(for duration: Duration) { time = time + duration }

    // MARK: IO

    package func wait(until deadline: Instant?, atMost limit: Int) -> Int {
        waits += 1
        reportLimit = limit
        takeReports(atMost: limit)
        isIdle = false
        if !reports.isEmpty { return reports.count }
        if let deadline, deadline <= horizon {
            time = max(time, deadline)
        } else {
            time = max(time, horizon)
            isIdle = true
        }
        return 0
    }

    /// Takes ready handles in turns, as the kernel does.
    private func takeReports(atMost limit: Int) {
        var ready = readyReports()
        if let last = lastReported, let next = ready.firstIndex(where: { $0.handle > last }) {
            ready = Array(ready[next...] + ready[..<next])
        }
        lastReported = ready.count > limit ? ready[limit - 1].handle : nil
        reports = injectedReports + ready.prefix(limit).map { $0.report }
        injectedReports = []
    }

    package func readiness(at position: Int) -> Readiness { reports[position] }

    package func accept(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome {
        precondition(listener == SimulatedIO.listener && isListening)
        if !acceptFailures.isEmpty { return .failed(acceptFailures.removeFirst()) }
        if let handleLimit, sockets.count >= handleLimit { return .failed(EMFILE) }
        return takeFromBacklog(peer: &peer)
    }

    package func acceptOnSpare(
        from listener: IOHandle, peer: inout NetworkAddress
    ) -> IOOutcome {
        // The spare allows one handle beyond the limit. It does not help against a failure that a
        // test injects.
        guard let handleLimit, sockets.count <= handleLimit else { return .failed(EMFILE) }
        return takeFromBacklog(peer: &peer)
    }

    private func takeFromBacklog(peer: inout NetworkAddress) -> IOOutcome {
        guard !backlog.isEmpty else { return .wouldBlock }
        var handle: IOHandle = 1
        while sockets[handle] != nil { handle += 1 }
        let socket = backlog.removeFirst()
        sockets[handle] = socket
        peer = socket.address
        return .done(Int(handle))
    }

    package func read(
        _ handle: IOHandle, into buffer: UnsafeMutableRawBufferPointer
    ) -> IOOutcome {
        let socket = socket(of: handle)
        if socket.isReset { return .failed(ECONNRESET) }
        guard !socket.inbound.isEmpty else { return socket.peerEnded ? .ended : .wouldBlock }
        if generator.happens(percent: faults.wouldBlockPercent) { return .wouldBlock }
        var count = min(buffer.count, socket.inbound.count)
        if generator.happens(percent: faults.splitReadPercent) {
            count = Int.random(in: 1...count, using: &generator)
        }
        buffer.copyBytes(from: socket.inbound[..<count])
        socket.inbound.removeFirst(count)
        return .done(count)
    }

    package func write(_ handle: IOHandle, _ bytes: UnsafeRawBufferPointer) -> IOOutcome {
        let socket = socket(of: handle)
        precondition(!bytes.isEmpty, "an empty write")
        precondition(!socket.serverEnded, "a write after the end of writing")
        if socket.isReset { return .failed(EPIPE) }
        let room = socket.window - socket.outbound.count
        guard room > 0, !generator.happens(percent: faults.wouldBlockPercent) else {
            return .wouldBlock
        }
        var count = min(room, bytes.count)
        if generator.happens(percent: faults.shortWritePercent) {
            count = Int.random(in: 1...count, using: &generator)
        }
        socket.outbound.append(contentsOf: bytes[..<count])
        return .done(count)
    }

    package func peer(of handle: IOHandle) -> NetworkAddress { socket(of: handle).address }

    package func finishWriting(_ handle: IOHandle) { socket(of: handle).serverEnded = true }

    package func close(_ handle: IOHandle) {
        if handle == SimulatedIO.listener {
            precondition(watches[handle] == nil, "a listener was closed while it was watched")
            isListening = false
            for socket in backlog { socket.isReset = true }
            backlog = []
            return
        }
        let socket = socket(of: handle)
        // Like the real kernel: closing with unread bytes resets, and the peer may lose its unread
        // data.
        if !socket.inbound.isEmpty { socket.isReset = true }
        socket.serverClosed = true
        sockets[handle] = nil
        watches[handle] = nil
    }

    package func watch(
        _ handle: IOHandle, for interest: Interest, token: EventToken, isNew: Bool
    ) -> Int32 {
        precondition((watches[handle] == nil) == isNew, "watched twice, or changed before watched")
        watches[handle] = Watch(interest: interest, token: token)
        return 0
    }

    package func unwatch(_ handle: IOHandle) {
        precondition(watches.removeValue(forKey: handle) != nil, "a handle that is not watched")
    }

    // MARK: The kernel's inside

    private func socket(of handle: IOHandle) -> SimulatedSocket {
        guard let socket = sockets[handle] else {
            preconditionFailure("handle \(handle) is used after it was closed")
        }
        return socket
    }

    /// Reports in handle order; a dictionary's order would differ between runs.
    private func readyReports() -> [(handle: IOHandle, report: Readiness)] {
        watches.keys.sorted().compactMap { handle in
            guard let watch = watches[handle] else { return nil }
            let report =
                handle == SimulatedIO.listener
                ? listenerReport(watch) : report(of: socket(of: handle), watch)
            return report.map { (handle, $0) }
        }
    }

    private func listenerReport(_ watch: Watch) -> Readiness? {
        guard !backlog.isEmpty || !acceptFailures.isEmpty else { return nil }
        return Readiness(token: watch.token, isReadable: true, isWritable: false, hasFailed: false)
    }

    private func report(of socket: SimulatedSocket, _ watch: Watch) -> Readiness? {
        let isReadable =
            !hidesReadiness && !socket.inbound.isEmpty || socket.peerEnded || socket.isReset
        let isWritable = socket.outbound.count < socket.window || socket.isReset
        let report = Readiness(
            token: watch.token, isReadable: isReadable && watch.interest.contains(.reads),
            isWritable: isWritable && watch.interest.contains(.writes), hasFailed: socket.isReset)
        return report.isReadable || report.isWritable || report.hasFailed ? report : nil
    }
}
