// HTTP to model and speech services, on the shard's own event loop: libcurl's multi_socket
// interface, which brings HTTP/2, TLS, proxies and connection reuse. One per shard.
//
// Lives here: the multi handle, its sockets and timer, the table of transfers, deadlines. One
// transfer's buffer and waiters are in UpstreamTransfer; a caller has an UpstreamReply.
// Invariant: libcurl is only entered on the loop's thread, and never from one of its callbacks.

import CCurl
import CLinux
import Session
import Synchronization

/// Limits of one shard's upstream transfers.
package struct UpstreamLimits: Equatable, Sendable {
    /// Transfers at once. 10,000: a shard can have that many turns in flight.
    package var maxTransfers = 10_000
    /// Bytes of one answer that wait for a slow consumer before the transfer is paused, which
    /// stops the sender through TCP or HTTP/2 flow control. 64 KiB: seconds of any model's text.
    package var maxBufferedBytes = 64 << 10
    /// Bytes of one answer's head. 64 KiB: far above any real one.
    package var maxHeadBytes = 64 << 10
    /// libcurl's receive buffer, 1,024…16,384. 1,024: a piece of a token stream is about 200 bytes,
    /// and this halves the memory of a transfer (27.8 kB with libcurl's default, 12.5 kB so).
    package var receiveBufferBytes = 1_024
    /// Simultaneous requests whose connections are kept for later requests; the connections of
    /// further requests are closed. 256: an idle connection takes memory at both ends. With so many
    /// answers the cost of new connections is small.
    package var maxKeptConnections = 256

    /// The defaults.
    package init() {}
}

/// An HTTP client confined to one event loop's thread.
///
/// `send(_:)` and `UpstreamResponse.nextChunk()` may be called from any async context: off the
/// loop's thread they hop to it by preferring `executor` for the time of the call. Everything else
/// is called by the loop, on its thread. That confinement is why `@unchecked Sendable` holds: other
/// threads only carry the reference.
package final class UpstreamHTTP: @unchecked Sendable {
    /// Limits of this client.
    package let limits: UpstreamLimits
    /// PEM file of the authorities that services' certificates are checked against. The default is
    /// the system's.
    private let authorities: String?
    /// libcurl's option for the proxy of services. Where nil, the environment variables decide. See
    /// `ServiceProxy`.
    private let proxy: String?
    private unowned let loop: any UpstreamEventLoop
    let executor: any TaskExecutor
    /// `pthread_self()` of the loop, from its first call; 0 before.
    private let loopThread = Atomic<UInt>(0)
    /// Made by the first request, so that a server without upstream services does not pay for it.
    private var multi: UnsafeMutableRawPointer?
    private var transfers: [UInt64: UpstreamTransfer] = [:]
    /// The accounts of owners that have requests under way.
    private var charges: [EventToken: UpstreamCharge] = [:]
    /// The account of the request that libcurl named last for a socket. It may have ended.
    private var payers: [Int32: UpstreamCharge] = [:]
    /// Connections over plain HTTP that wait for a next request, by origin. A service may have
    /// closed some of them. No entry is 0.
    private var keptConnections: [String: Int] = [:]
    private var lastTransferID: UInt64 = 0
    private var isShutDown = false
    /// When libcurl wants a call, also if no socket is ready.
    private var curlDeadline: Instant?
    /// The earliest instant at which some transfer may have been silent for too long. Activity does
    /// not move it: an early look is cheaper than a timer per piece.
    private var silenceCheck: Instant?
    private var armedTimer: Instant?

    /// The number of requests that have not ended.
    package var activeTransfers: Int { transfers.count }

    /// Creates a client. It does nothing until the first request.
    /// - Parameters:
    ///   - loop: the event loop; it must outlive this client or call `shutdown()` first.
    ///   - executor: runs jobs on the loop's thread.
    package init(
        loop: any UpstreamEventLoop, executor: any TaskExecutor,
        limits: UpstreamLimits = UpstreamLimits(), authorities: String? = nil, proxy: String? = nil
    ) {
        self.authorities = authorities
        self.proxy = proxy
        self.loop = loop
        self.executor = executor
        self.limits = limits
    }

    deinit {
        guard let multi else { return }
        // The loop may be freed, so libcurl must not call back; closing a socket ends its watch.
        parley_curl_multi_set_callbacks(multi, nil, nil, nil)
        for transfer in transfers.values {
            curl_multi_remove_handle(multi, transfer.easy)
            transfer.releaseHandle()
        }
        curl_multi_cleanup(multi)
    }

    /// Sends a request and returns once the head of the answer is there, whatever its status.
    /// - Throws: `AgentError.upstream` with status 0 when no answer came, `AgentError.overloaded`
    ///   beyond `limits.maxTransfers`, `CancellationError`.
    package func send(
        _ request: UpstreamRequest, for owner: EventToken? = nil
    ) async throws -> any UpstreamResponse {
        if isOnLoopThread { return try await begin(request, for: owner) }
        return try await withTaskExecutorPreference(executor) {
            try await self.begin(request, for: owner)
        }
    }

    /// Bytes of the requests of an owner; 0 without any.
    package func heldBytes(of owner: EventToken) -> Int {
        charges.isEmpty ? 0 : charges[owner]?.heldBytes ?? 0
    }

    /// Ends every transfer with an error and closes all connections.
    package func shutdown() {
        claimThread()
        isShutDown = true
        for transfer in transfers.values.sorted(by: { $0.id < $1.id }) {
            end(transfer, as: .failed(.upstream(status: 0, message: "The server is stopping.")))
        }
        if let multi { curl_multi_cleanup(multi) }
        multi = nil
        keptConnections = [:]
        curlDeadline = nil
        armTimer()
    }

    // MARK: What the loop calls

    /// A watched socket is ready.
    package func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {
        claimThread()
        guard let multi else { return }
        var ready: Int32 = 0
        if readable { ready |= CURL_CSELECT_IN }
        if writable { ready |= CURL_CSELECT_OUT }
        if failed { ready |= CURL_CSELECT_ERR }
        // Its last request may end in the call, and its account must outlive that.
        withExtendedLifetime(payers[fd]) { charge in
            let payer = charge?.account.begin() ?? .suspend()
            defer { payer.end() }
            enterLibrary { curl_multi_socket_action(multi, fd, ready, &$0) }
        }
    }

    /// The timer has fired.
    package func handleTimer() {
        claimThread()
        armedTimer = nil
        let now = loop.now
        if let multi, let curlDeadline, curlDeadline <= now {
            self.curlDeadline = nil
            enterLibrary { curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &$0) }
        }
        if let silenceCheck, silenceCheck <= now { endSilentTransfers(at: now) }
        armTimer()
    }

    // MARK: What replies call

    /// Whether the caller runs on the loop's thread, where it may touch transfers.
    var isOnLoopThread: Bool { loopThread.load(ordering: .relaxed) == UInt(pthread_self()) }

    /// Takes the next piece of an answer, if it has come.
    func takeChunk(of transfer: UpstreamTransfer) -> UpstreamTransfer.Taken {
        claimThread()
        if Task.isCancelled { cancel(transfer) }
        let taken = transfer.takeChunk()
        if case .chunk = taken { resumeIfConsumed(transfer) }
        return taken
    }

    /// Ends a transfer that is not wanted any more. Any thread.
    func abandon(_ transfer: UpstreamTransfer) {
        if isOnLoopThread {
            cancel(transfer)
        } else {
            Task(executorPreference: executor) { self.cancel(transfer) }
        }
    }

    /// Ends a transfer after a time, as if the service had ended it. Any thread.
    func expectEnd(of transfer: UpstreamTransfer, within limit: Duration) {
        guard isOnLoopThread else {
            Task(executorPreference: executor) { self.expectEnd(of: transfer, within: limit) }
            return
        }
        guard transfers[transfer.id] != nil else { return }
        transfer.handleEndExpected(by: loop.now + limit)
        watchSilence(of: transfer, at: loop.now)
        armTimer()
    }

    /// Drops the bytes of an answer that have come, and those that will come until the transfer
    /// ends. Any thread.
    func skipRest(of transfer: UpstreamTransfer) {
        guard isOnLoopThread else {
            Task(executorPreference: executor) { self.skipRest(of: transfer) }
            return
        }
        transfer.skipRest()
        if transfers[transfer.id] != nil { resumeIfConsumed(transfer) }
    }

    // MARK: One request

    private nonisolated(nonsending) func begin(
        _ request: UpstreamRequest, for owner: EventToken?
    ) async throws -> any UpstreamResponse {
        claimThread()
        try Task.checkCancellation()
        let transfer = try start(request, for: owner)
        return try await withTaskCancellationHandler {
            let status = try await withCheckedThrowingContinuation { transfer.awaitHead($0) }
            return UpstreamReply(status: status, transfer: transfer, client: self)
        } onCancel: {
            self.abandon(transfer)
        }
    }

    private func start(
        _ request: UpstreamRequest, for owner: EventToken?
    ) throws -> UpstreamTransfer {
        guard !isShutDown else {
            throw AgentError.upstream(status: 0, message: "The server is stopping.")
        }
        guard transfers.count < limits.maxTransfers else { throw AgentError.overloaded }
        let multi = try readyMulti()
        lastTransferID += 1
        let charge = owner.flatMap { charges[$0] } ?? UpstreamCharge()
        let payer = charge.account.begin()
        // The request may end at once, and its account must outlive that.
        defer { withExtendedLifetime(charge) { payer.end() } }
        let transfer = try UpstreamTransfer(
            id: lastTransferID, request: request, limits: limits, authorities: authorities,
            proxy: proxy, loop: loop, owner: owner, charge: charge)
        chooseConnection(for: transfer)
        guard curl_multi_add_handle(multi, transfer.easy) == CURLM_OK else {
            transfer.releaseHandle()
            throw AgentError.upstream(status: 0, message: "libcurl refused the request.")
        }
        transfers[transfer.id] = transfer
        if let owner { charges[owner] = charge }
        watchSilence(of: transfer, at: loop.now)
        // Connects at once, or sends on a kept connection: here the owner's account is charged, and
        // the request does not wait for the loop's next tick.
        enterLibrary { curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &$0) }
        return transfer
    }

    /// Spares libcurl the search of its connections where it would find none. It goes through
    /// all of them, also those in use, when it looks for a kept one and when one is too many. With
    /// 9,500 transfers in flight that was half of the server's time.
    private func chooseConnection(for transfer: UpstreamTransfer) {
        if transfers.count >= limits.maxKeptConnections { transfer.closeConnection() }
        // Over TLS a connection in use may carry many requests.
        guard !transfer.isOverTLS, !transfer.isConfined else { return }
        guard let kept = keptConnections[transfer.origin] else { return transfer.connectAnew() }
        keptConnections[transfer.origin] = kept > 1 ? kept - 1 : nil
    }

    private func enterLibrary(_ call: (inout Int32) -> CURLMcode) {
        var running: Int32 = 0
        _ = call(&running)
        finishDoneTransfers()
        armTimer()
    }

    /// Resumes a paused transfer whose consumer has caught up. libcurl delivers the bytes that it
    /// has kept back inside this call.
    private func resumeIfConsumed(_ transfer: UpstreamTransfer) {
        guard transfer.shouldResume, multi != nil else { return }
        transfer.handleResume()
        let payer = transfer.charge.account.begin()
        defer { payer.end() }
        curl_easy_pause(transfer.easy, CURLPAUSE_CONT)
        armTimer()
    }

    private func cancel(_ transfer: UpstreamTransfer) {
        claimThread()
        end(transfer, as: .cancelled)
        armTimer()
    }

    /// Removes a transfer from libcurl, which closes its connection when it was in use, and resumes
    /// its waiters. Does nothing to a transfer that has ended.
    private func end(_ transfer: UpstreamTransfer, as outcome: UpstreamTransfer.Outcome) {
        guard transfers.removeValue(forKey: transfer.id) != nil else {
            transfer.discardIfCancelled(outcome)
            return
        }
        // Memory that libcurl keeps from here on is for later requests of any owner.
        let payer = NativePayer.suspend()
        defer { payer.end() }
        if case .completed = outcome, transfer.keepsConnection, !transfer.isOverTLS {
            keptConnections[transfer.origin, default: 0] += 1
            // Clients may name servers, so the table is bounded. A connection without an entry
            // stays open until the service or libcurl closes it.
            if keptConnections.count > limits.maxKeptConnections { keptConnections = [:] }
        }
        if let multi { curl_multi_remove_handle(multi, transfer.easy) }
        transfer.releaseHandle()
        transfer.handleEnd(outcome)
        guard let owner = transfer.owner, transfer.charge.transfers == 0 else { return }
        charges[owner] = nil
    }

    // MARK: libcurl

    private func readyMulti() throws -> UnsafeMutableRawPointer {
        if let multi { return multi }
        let payer = NativePayer.suspend()
        defer { payer.end() }
        guard NativeMemory.isCurlReady, let created = curl_multi_init() else {
            throw AgentError.unavailable(message: "libcurl could not be started.")
        }
        parley_curl_multi_set_long(
            created, CURLMOPT_MAXCONNECTS, limits.maxTransfers + limits.maxKeptConnections)
        parley_curl_multi_set_callbacks(
            created,
            { easy, fd, what, context, _ in
                UpstreamHTTP.from(context).handleInterest(of: easy, fd: fd, what: what)
                return 0
            },
            { _, milliseconds, context in
                UpstreamHTTP.from(context).handleCurlTimer(milliseconds: milliseconds)
                return 0
            },
            Unmanaged.passUnretained(self).toOpaque())
        multi = created
        return created
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> UpstreamHTTP {
        Unmanaged<UpstreamHTTP>.fromOpaque(context!).takeUnretainedValue()
    }

    private func handleInterest(of easy: UnsafeMutableRawPointer?, fd: Int32, what: Int32) {
        if what == CURL_POLL_REMOVE {
            payers[fd] = nil
            loop.unwatch(fd: fd)
        } else {
            payers[fd] = UpstreamTransfer.transfer(of: easy)?.charge
            loop.watch(
                fd: fd, readable: what & CURL_POLL_IN != 0, writable: what & CURL_POLL_OUT != 0)
        }
    }

    /// Only notes the time: libcurl may not be entered from its own callback.
    private func handleCurlTimer(milliseconds: Int) {
        curlDeadline = milliseconds < 0 ? nil : loop.now + .milliseconds(milliseconds)
    }

    private func finishDoneTransfers() {
        guard let multi else { return }
        var remaining: Int32 = 0
        while let message = curl_multi_info_read(multi, &remaining) {
            guard message.pointee.msg == CURLMSG_DONE,
                let transfer = UpstreamTransfer.transfer(of: message.pointee.easy_handle)
            else { continue }
            let result = parley_curl_message_result(message)
            end(transfer, as: transfer.outcome(of: result))
        }
    }

    // MARK: Time

    private func endSilentTransfers(at now: Instant) {
        silenceCheck = nil
        for transfer in transfers.values.sorted(by: { $0.id < $1.id }) {
            if let outcome = transfer.timedOutcome(at: now) {
                end(transfer, as: outcome)
            } else {
                watchSilence(of: transfer, at: now)
            }
        }
    }

    private func watchSilence(of transfer: UpstreamTransfer, at now: Instant) {
        let deadline = transfer.silenceDeadline(at: now)
        silenceCheck = min(silenceCheck ?? deadline, deadline)
    }

    private func armTimer() {
        if transfers.isEmpty { silenceCheck = nil }
        var next = curlDeadline ?? silenceCheck
        if let earliest = next, let silenceCheck { next = min(earliest, silenceCheck) }
        guard next != armedTimer else { return }
        armedTimer = next
        loop.setUpstreamTimer(at: next)
    }

    private func claimThread() {
        let current = UInt(pthread_self())
        guard loopThread.load(ordering: .relaxed) != current else { return }
        let (_, owner) = loopThread.compareExchange(
            expected: 0, desired: current, ordering: .relaxed)
        precondition(
            owner == 0 || owner == current, "UpstreamHTTP is used off its event loop's thread")
    }
}
