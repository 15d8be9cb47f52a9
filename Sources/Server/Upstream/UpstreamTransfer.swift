// One HTTP request in flight: its libcurl handle, the pieces that wait for their consumer, and the
// tasks that wait for it. UpstreamHTTP calls libcurl and decides when a transfer ends.
//
// Invariant: pieces wait only while no task waits for a piece; at most one task waits; after the
// end the handle is released and no callback comes. Confined to the event loop's thread.

import CCurl
import Codec
import Session

/// One request, and the part of its answer that has come.
final class UpstreamTransfer: @unchecked Sendable {
    /// The outcome of a transfer.
    enum Outcome {
        case completed
        case failed(AgentError)
        case cancelled
    }

    /// The result of `takeChunk()`.
    enum Taken {
        case chunk([UInt8])
        /// The answer is over; the error, if it broke.
        case end((any Error)?)
        case empty
    }

    /// awaitingHead → streaming → ended, or awaitingHead → ended.
    private enum Stage {
        case awaitingHead
        case streaming
        case ended(Outcome)
    }

    let id: UInt64
    /// The session that it is for. Nil means none.
    let owner: EventToken?
    /// The account that its memory is charged to.
    let charge: UpstreamCharge
    /// libcurl's handle; valid until `releaseHandle()`.
    let easy: UnsafeMutableRawPointer
    var headerList: UnsafeMutablePointer<curl_slist>?
    /// The buffer for libcurl's error text.
    let errorText: UnsafeMutablePointer<CChar>
    /// Only its clock is read here.
    private unowned let loop: any UpstreamEventLoop
    /// Scheme, host and port of its URL.
    let origin: String
    /// Whether the request goes over TLS.
    let isOverTLS: Bool
    /// Whether its connection may serve another request when it has ended.
    var keepsConnection = true
    /// Whether it may reach public addresses only.
    var isConfined = false
    /// Whether one of the host's addresses was not public.
    private var wasConfined = false
    private let timeout: Duration
    /// When it times out even if it is active, or nil where it never does. Pauses move this time
    /// on.
    private var lastInstant: Instant?
    /// When it ends without an error, because its answer is complete. Nil where it is not complete.
    private var expectedEnd: Instant?
    /// Whether the rest of its body is not read.
    private var skipsRest = false
    private let maxBufferedBytes: Int
    private let maxHeadBytes: Int

    private var stage = Stage.awaitingHead
    /// Whether the head came whole, even if the answer broke off after it.
    private var hasHead = false
    private var status = 0
    /// The seconds in `Retry-After`; 0 where there is none.
    private var retryAfterSeconds = 0
    /// The answer's `Content-Type`; nil where there is none.
    private(set) var contentType: String?
    /// Where the answer redirects to, or nil where it is no redirect.
    private(set) var location: String?
    /// The field of the head that the request wants to keep, and its value.
    private let keptHeader: String?
    private var keptValue: String?
    private var headBytes = 0
    /// Why this server refused the rest, if it did.
    private var refusal: AgentError?
    /// Pieces in order; those before `firstPending` have been taken.
    @exclusivity(unchecked) private var pending: [[UInt8]] = []  // 4,100 instructions a typed turn.
    private var firstPending = 0
    private var pendingBytes = 0 {
        didSet { charge.addPending(pendingBytes - oldValue) }
    }
    /// Since when it has been paused for a slow consumer, or nil where it is not paused.
    private var pausedSince: Instant?
    private var isPaused: Bool { pausedSince != nil }
    /// When bytes last came, or when the transfer was last resumed. Each piece moves it, the
    /// deadline follows.
    private var lastActivity: Instant
    private var headWaiter: CheckedContinuation<Int, any Error>?
    /// Unsafe, as a checked continuation would allocate for every piece of an answer.
    private var chunkWaiter: UnsafeContinuation<[UInt8]?, any Error>?

    /// Prepares a request; `UpstreamHTTP` hands it to libcurl.
    /// - Throws: `AgentError.upstream` when the request cannot be expressed.
    init(
        id: UInt64, request: UpstreamRequest, limits: UpstreamLimits,
        authorities: String?, proxy: String? = nil, loop: any UpstreamEventLoop, owner: EventToken?,
        charge: UpstreamCharge
    ) throws {
        self.id = id
        self.owner = owner
        self.charge = charge
        self.loop = loop
        origin = Self.origin(of: request.url)
        isOverTLS = request.url.hasPrefix("https:")
        timeout = request.timeout
        lastInstant = request.totalTimeout.map { loop.now + $0 }
        maxBufferedBytes = limits.maxBufferedBytes
        maxHeadBytes = limits.maxHeadBytes
        keptHeader = request.keptHeader
        lastActivity = loop.now
        for field in request.headers where !Self.isSafe(field.name) || !Self.isSafe(field.value) {
            throw AgentError.upstream(
                status: 0, message: "A header field for \(origin) contains a control character.")
        }
        guard let easy = curl_easy_init() else {
            throw AgentError.upstream(status: 0, message: "libcurl has no memory for a request.")
        }
        self.easy = easy
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        configure(request, receiveBufferBytes: limits.receiveBufferBytes, authorities, proxy: proxy)
        charge.handleBeginning(ownBytes: ownBytes)
    }

    /// Bytes of its own, without the pieces that wait.
    private var ownBytes: Int {
        NativeMemory.blockBytes(of: self) + Int(CURL_ERROR_SIZE) + MemoryLayout<Int>.size
    }

    deinit { errorText.deallocate() }

    /// Frees libcurl's handle. Called once, after the handle has left the multi handle.
    func releaseHandle() {
        curl_easy_cleanup(easy)
        curl_slist_free_all(headerList)
        headerList = nil
        charge.handleEnd(ownBytes: ownBytes)
    }

    // MARK: Consumer

    /// Registers the task that waits for the head; resumes it at once when the head or the end is
    /// there.
    func awaitHead(_ waiter: CheckedContinuation<Int, any Error>) {
        switch stage {
        case .awaitingHead: headWaiter = waiter
        case .streaming: waiter.resume(returning: status)
        case .ended(let outcome):
            // A quick answer can break off before its head is awaited. Its pieces are still to be
            // read, and its error comes after them.
            let error = hasHead ? nil : Self.error(of: outcome)
            waiter.resume(with: error.map { .failure($0) } ?? .success(status))
        }
    }

    /// Takes the oldest piece that waits.
    func takeChunk() -> Taken {
        if firstPending < pending.count {
            var bytes: [UInt8] = []
            swap(&bytes, &pending[firstPending])
            firstPending += 1
            pendingBytes -= bytes.count
            if firstPending == pending.count {
                pending.removeAll(keepingCapacity: true)
                firstPending = 0
            }
            return .chunk(bytes)
        }
        switch stage {
        case .awaitingHead, .streaming: return .empty
        case .ended(let outcome): return .end(Self.error(of: outcome))
        }
    }

    /// Registers the task that waits for the next piece; resumes it at once when the transfer has
    /// ended.
    func awaitChunk(_ waiter: UnsafeContinuation<[UInt8]?, any Error>) {
        precondition(chunkWaiter == nil, "an upstream answer has one consumer")
        switch takeChunk() {
        case .chunk(let bytes): waiter.resume(returning: bytes)
        case .end(let error?): waiter.resume(throwing: error)
        case .end(nil): waiter.resume(returning: nil)
        case .empty: chunkWaiter = waiter
        }
    }

    /// Whether a paused transfer's consumer has caught up: half the limit, so that a consumer at
    /// its edge does not switch at every piece.
    var shouldResume: Bool { isPaused && pendingBytes <= maxBufferedBytes / 2 }

    /// Handles the end of a pause, which does not count as the service's time.
    func handleResume() {
        guard let pausedSince = pausedSince.take() else { return }
        lastActivity = loop.now
        if let lastInstant { self.lastInstant = lastInstant + (loop.now - pausedSince) }
    }

    // MARK: Progress

    /// The transfer is over.
    func handleEnd(_ outcome: Outcome) {
        stage = .ended(outcome)
        if case .cancelled = outcome { dropPending() }
        let error = Self.error(of: outcome)
        headWaiter.take()?.resume(with: error.map { .failure($0) } ?? .success(status))
        chunkWaiter.take()?.resume(with: error.map { .failure($0) } ?? .success(nil))
    }

    /// Drops the pieces that wait, where the transfer was cancelled after its end.
    func discardIfCancelled(_ outcome: Outcome) {
        guard case .cancelled = outcome else { return }
        stage = .ended(.cancelled)
        dropPending()
    }

    /// Notes that an address of the host is not public. Another address of it may be.
    func handlePrivateAddress() { wasConfined = true }

    /// The outcome for libcurl's result.
    func outcome(of result: CURLcode) -> Outcome {
        if let refusal { return .failed(refusal) }
        if result == CURLE_OK {
            readStatus()
            return .completed
        }
        if case .awaitingHead = stage, wasConfined || isUnresolved(result) {
            return .failed(
                .unavailable(message: "Only servers with a public address may be reached."))
        }
        let written = String(cString: errorText)
        let detail = written.isEmpty ? String(cString: curl_easy_strerror(result)) : written
        switch stage {
        case .awaitingHead:
            return .failed(
                .upstream(status: 0, message: "No answer from \(origin): \(detail)."))
        case .streaming, .ended:
            return .failed(
                .upstream(status: 0, message: "The answer of \(origin) broke off: \(detail)."))
        }
    }

    /// Whether a confined request names no existing host. It gets the same answer as a host of the
    /// server's own network.
    private func isUnresolved(_ result: CURLcode) -> Bool {
        isConfined && result == CURLE_COULDNT_RESOLVE_HOST
    }

    func handleHead(_ line: UnsafeRawBufferPointer) -> Bool {
        lastActivity = loop.now
        headBytes += line.count
        guard headBytes <= maxHeadBytes else {
            refusal = .upstream(
                status: 0, message: "The head of the answer of \(origin) is too large.")
            return false
        }
        // An empty line ends a head; heads of 1xx answers come before the final one, and trailers
        // come after the body (RFC 9110 §15.2, §6.5).
        guard case .awaitingHead = stage, line.count <= 2, line.first == 13 || line.first == 10
        else { return true }
        readStatus()
        guard status >= 200 else { return true }
        stage = .streaming
        hasHead = true
        headWaiter.take()?.resume(returning: status)
        return true
    }

    /// Takes a piece of the body. False: libcurl keeps it and pauses.
    func handleBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
        lastActivity = loop.now
        guard !skipsRest else { return true }
        if let waiter = chunkWaiter.take() {
            waiter.resume(returning: [UInt8](bytes))
            return true
        }
        if pendingBytes > 0, pendingBytes + bytes.count > maxBufferedBytes {
            pausedSince = loop.now
            return false
        }
        pending.append([UInt8](bytes))
        pendingBytes += bytes.count
        return true
    }

    private func readStatus() {
        var code = 0
        parley_curl_info_long(easy, CURLINFO_RESPONSE_CODE, &code)
        status = code
        var seconds: curl_off_t = 0
        parley_curl_info_offset(easy, CURLINFO_RETRY_AFTER, &seconds)
        retryAfterSeconds = Int(clamping: seconds)
        // libcurl's own text, valid as long as the handle.
        var type: UnsafeMutableRawPointer?
        parley_curl_info_pointer(easy, CURLINFO_CONTENT_TYPE, &type)
        contentType = type.map { String(cString: $0.assumingMemoryBound(to: CChar.self)) }
        if (300..<400).contains(status), let value = parley_curl_header(easy, "Location") {
            location = String(cString: value)
        }
        guard let keptHeader, let value = parley_curl_header(easy, keptHeader) else { return }
        keptValue = String(cString: value)
    }

    /// The time in `Retry-After`; at most a day, since a peer may write any number.
    var retryAfter: Duration? {
        retryAfterSeconds > 0 ? .seconds(min(retryAfterSeconds, 86_400)) : nil
    }

    /// The field that the request wants to keep; nil where there is none.
    var kept: (name: String, value: String)? {
        guard let keptHeader, let keptValue else { return nil }
        return (keptHeader, keptValue)
    }

    fileprivate func dropPending() {
        pending = []
        firstPending = 0
        pendingBytes = 0
    }

    private static func error(of outcome: Outcome) -> (any Error)? {
        switch outcome {
        case .completed: nil
        case .failed(let error): error
        case .cancelled: CancellationError()
        }
    }
}

// MARK: - Silence

extension UpstreamTransfer {
    /// When the silence so far becomes too long. A paused transfer is silent because its consumer
    /// is slow, not because of the service.
    func silenceDeadline(at now: Instant) -> Instant {
        if let expectedEnd { return expectedEnd }
        if isPaused { return now + timeout }
        let deadline = lastActivity + timeout
        return lastInstant.map { min($0, deadline) } ?? deadline
    }

    /// Skips the rest: no consumer reads the bytes that have come, or that will come.
    func skipRest() {
        skipsRest = true
        dropPending()
    }

    /// The answer is complete, and the rest of the transfer may take until an instant.
    func handleEndExpected(by instant: Instant) { expectedEnd = instant }

    /// The outcome of a transfer whose time is over, or nil.
    func timedOutcome(at now: Instant) -> Outcome? {
        guard silenceDeadline(at: now) <= now else { return nil }
        guard expectedEnd == nil else {
            // It is in the middle of an answer.
            keepsConnection = false
            return .completed
        }
        return .failed(silenceError(at: now))
    }

    /// The error of a transfer that has been silent for too long.
    private func silenceError(at now: Instant) -> AgentError {
        if let lastInstant, lastInstant <= now {
            return .upstream(status: 0, message: "\(origin) took too long for its answer.")
        }
        let limit = Self.seconds(timeout)
        switch stage {
        case .awaitingHead:
            return .upstream(status: 0, message: "\(origin) gave no answer within \(limit).")
        case .streaming, .ended:
            return .upstream(
                status: 0, message: "\(origin) fell silent for \(limit) within its answer.")
        }
    }

    private static func seconds(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMilliseconds
        return milliseconds % 1_000 == 0 ? "\(milliseconds / 1_000) s" : "\(milliseconds) ms"
    }
}
