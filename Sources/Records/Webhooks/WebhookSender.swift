// Sends events from the spool to their receiver, on a thread of its own with libcurl's multi interface.
//
// Invariant: an event is deleted from the spool after the receiver has taken it (2xx), or after the
// last attempt. So it is sent at least once, and by its id a receiver recognises an event that came
// twice.
//
// Several servers may share a spool. One that begins to send an event moves the event's time to where its
// own request must have ended: that is its lease. The others see an event that is not due, and one that was
// leased by a killed server is due again by itself.

import CCurl
import CLinux
import CNativeMemory
import Logging
import Server
import Session
import Synchronization

/// The way from the spool to the receiver of webhooks.
final class WebhookSender: @unchecked Sendable {
    /// Events that are sent at once. 8: a receiver that takes 100 ms gets 80 a second.
    private static let parallel = 8
    /// Seconds until the next attempt, after each one that failed: the schedule of Standard Webhooks,
    /// three days together, with shorter steps at its beginning for a receiver that restarts.
    static let retrySeconds = [1, 5, 30, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
    /// Time between two looks into the spool, where no change wakes the thread. 1 s.
    private static let interval = Duration.seconds(1)
    /// How long the end waits for requests under way. 2 s.
    private static let patience = Duration.seconds(2)
    /// The answer of a receiver that wants no more events (410).
    private static let gone = 410
    /// The longest pause that a receiver can ask for with `Retry-After` (RFC 9110 §10.2.3). A day, the
    /// longest step of the schedule.
    private static let maxRetryAfter = 86_400
    /// How much longer than a request its lease is, for the writes before and after it. 5 s.
    private static let leaseMargin = Duration.seconds(5)
    /// The least step back of the wall clock that is corrected. 1 s, the shortest pause.
    private static let clockStep = 1_000

    private let settings: WebhookSettings
    private let secrets: Mutex<[WebhookSecret]>
    private let logger: Logger
    private let multi: UnsafeMutableRawPointer
    private let tally = Mutex(Tally())
    private let isStopping = Atomic<Bool>(false)
    /// Whether a receiver that wanted no more events is asked again.
    private let isResumed = Atomic<Bool>(false)
    private var thread: BackgroundThread?
    // Only the sender's thread uses it.
    private let spool: SQLiteDatabase
    private var sending: [UnsafeMutableRawPointer: Delivery] = [:]
    private let faults = ServiceFaultLog()
    private var isFailing = false
    /// Whether the receiver wants no more events.
    private var isDisabled = false
    /// Until when the receiver wants no requests. It is nil where the receiver has asked for no
    /// pause.
    private var pauseEnd: Instant?
    /// The wall clock minus the monotonic one, in milliseconds, at the last look. It is nil until
    /// the first one.
    private var clockOffset: Int?

    private struct Tally {
        var delivered = 0
        var failed = 0
        var lost = 0
        var waiting = 0
    }

    private struct Delivery {
        let id: String
        let attempts: Int
        let headers: UnsafeMutablePointer<curl_slist>?
        let answer: ReceiverAnswer
    }

    /// - Parameter path: of the spool.
    init(_ settings: WebhookSettings, path: String, logger: Logger) throws(SQLiteError) {
        (self.settings, self.logger) = (settings, logger)
        secrets = Mutex(settings.secrets)
        spool = try SQLiteDatabase(path: path)
        _ = parley_curl_global_init(Int(CURL_GLOBAL_DEFAULT))
        guard let multi = curl_multi_init() else { preconditionFailure("libcurl has no memory") }
        self.multi = multi
        thread = BackgroundThread("webhooks") { [self] in send() }
    }

    deinit { curl_multi_cleanup(multi) }

    /// The spool may have events. Any thread.
    func wake() { curl_multi_wakeup(multi) }

    /// Reads the secrets anew, and asks a receiver again that wanted no more events. Any thread.
    func reload() throws {
        if let made = try settings.rereadSecrets?() { secrets.withLock { $0 = made } }
        isResumed.store(true, ordering: .relaxed)
        wake()
    }

    /// Waits shortly for the requests under way, and ends.
    func shutdown() {
        isStopping.store(true, ordering: .relaxed)
        wake()
        thread?.join()
    }

    func add(to counts: inout RecordCounts) {
        let tally = tally.withLock { $0 }
        counts.deliveredWebhooks = tally.delivered
        counts.failedWebhooks = tally.failed
        counts.lostWebhooks += tally.lost
        counts.waitingWebhooks = tally.waiting
    }

    // MARK: The thread

    private func send() {
        var stopped: Instant?
        while true {
            if isStopping.load(ordering: .relaxed) { stopped = stopped ?? MonotonicClock.now }
            do throws(SQLiteError) {
                try followClock()
                if isResumed.exchange(false, ordering: .relaxed) {
                    (isDisabled, pauseEnd) = (false, nil)
                }
                // Events that wait at the end are tried once: a receiver that answers gets them
                // now.
                try beginDue()
                if let stopped,
                    sending.isEmpty || MonotonicClock.now - stopped > Self.patience
                {
                    return abandon()
                }
                var running: Int32 = 0
                curl_multi_perform(multi, &running)
                try finishDone()
            } catch {
                logger.error(
                    "the spool of webhooks cannot be used", metadata: ["reason": "\(error)"])
                if stopped != nil { return abandon() }
            }
            let limit = stopped == nil ? Self.interval : .milliseconds(50)
            curl_multi_poll(multi, nil, 0, Int32(limit.wholeMilliseconds), nil)
        }
    }

    /// After a step back of the wall clock, and at the start, makes events due whose time is further away
    /// than it was when it was set. It was set by a clock that was ahead.
    private func followClock() throws(SQLiteError) {
        let now = WallClock.milliseconds
        let offset = now - Int(MonotonicClock.now.nanoseconds / 1_000_000)
        if clockOffset.map({ offset < $0 - Self.clockStep }) ?? true {
            try spool.run(
                "UPDATE webhooks SET due_ms = ?1 WHERE due_ms > ?1 + pause_ms", .integer(now))
        }
        clockOffset = offset
    }

    /// Begins to send events that are due, the oldest first.
    private func beginDue() throws(SQLiteError) {
        defer { noteWaiting() }
        if isDisabled { return try dropAll() }
        if let pauseEnd, MonotonicClock.now < pauseEnd { return }
        let room = Self.parallel - sending.count
        guard room > 0 else { return }
        let now = WallClock.milliseconds
        let due = try spool.rows(
            """
            SELECT id, body, attempts, due_ms FROM webhooks WHERE due_ms <= ?
            ORDER BY due_ms, rowid LIMIT ?
            """,
            .integer(now), .integer(room)
        ) { (id: $0.text(0), body: $0.text(1), attempts: $0.integer(2), due: $0.integer(3)) }
        let lease = (settings.timeout + Self.leaseMargin).wholeMilliseconds
        for event in due {
            // Another server may have been first.
            let taken = try spool.run(
                "UPDATE webhooks SET due_ms = ?, pause_ms = ? WHERE id = ? AND due_ms = ?",
                .integer(now + lease), .integer(lease), .text(event.id), .integer(event.due))
            guard taken == 1 else { continue }
            begin(event.id, event.body, attempts: event.attempts, at: now / 1_000)
        }
    }

    private func noteWaiting() {
        guard let waiting = try? spool.number("SELECT COUNT(*) FROM webhooks") else { return }
        tally.withLock { $0.waiting = waiting }
    }

    /// Drops the events that wait for a receiver that wants no more.
    private func dropAll() throws(SQLiteError) {
        guard sending.isEmpty else { return }
        let dropped = try spool.run("DELETE FROM webhooks")
        tally.withLock { $0.lost += dropped }
    }

    private func begin(_ id: String, _ body: String, attempts: Int, at seconds: Int) {
        guard let easy = curl_easy_init() else { return }
        let signatures = secrets.withLock { $0 }
            .compactMap { $0.signature(id: id, seconds: seconds, body: body) }
        var headers: UnsafeMutablePointer<curl_slist>?
        for line in [
            "Content-Type: application/json", "Expect:", "webhook-id: \(id)",
            "webhook-timestamp: \(seconds)",
            "webhook-signature: \(signatures.joined(separator: " "))",
        ] { headers = curl_slist_append(headers, line) }
        settings.url.withCString { _ = parley_curl_set_pointer(easy, CURLOPT_URL, $0) }
        _ = parley_curl_set_long(easy, CURLOPT_POSTFIELDSIZE, body.utf8.count)
        body.withCString { _ = parley_curl_set_pointer(easy, CURLOPT_COPYPOSTFIELDS, $0) }
        _ = parley_curl_set_pointer(easy, CURLOPT_HTTPHEADER, headers)
        _ = parley_curl_set_long(easy, CURLOPT_TIMEOUT_MS, settings.timeout.wholeMilliseconds)
        _ = parley_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        "parley".withCString { _ = parley_curl_set_pointer(easy, CURLOPT_USERAGENT, $0) }
        settings.authorities?.withCString {
            _ = parley_curl_set_pointer(easy, CURLOPT_CAINFO, $0)
        }
        settings.proxy?.withCString { _ = parley_curl_set_pointer(easy, CURLOPT_PROXY, $0) }
        let answer = ReceiverAnswer()
        parley_curl_set_callbacks(
            easy, { _, size, count, _ in size * count },
            { bytes, size, count, context in
                ReceiverAnswer.from(context).append(bytes, count: size * count)
                return size * count
            }, Unmanaged.passUnretained(answer).toOpaque())
        sending[easy] = Delivery(id: id, attempts: attempts, headers: headers, answer: answer)
        curl_multi_add_handle(multi, easy)
    }

    private func finishDone() throws(SQLiteError) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
                let delivery = sending[easy]
            else { continue }
            let result = parley_curl_message_result(message)
            var status = 0
            if result == CURLE_OK {
                _ = parley_curl_info_long(easy, CURLINFO_RESPONSE_CODE, &status)
            }
            var retryAfter: curl_off_t = 0
            _ = parley_curl_info_offset(easy, CURLINFO_RETRY_AFTER, &retryAfter)
            let pause = min(max(0, Int(retryAfter)), Self.maxRetryAfter)
            let reason =
                result == CURLE_OK
                ? "a webhook was not taken" + (pause > 0 ? ", Retry-After \(pause) s" : "")
                : String(cString: curl_easy_strerror(result))
            let fault = delivery.answer.fault(
                of: ServiceFault.webhooks, at: settings.url, status: status, reason: reason, easy)
            release(easy)
            try finish(delivery, status: status, retryAfter: pause, fault)
        }
    }

    /// - Parameters:
    ///   - retryAfter: seconds that the receiver asks for; 0: none.
    ///   - fault: what to log if the event was not taken.
    private func finish(
        _ delivery: Delivery, status: Int, retryAfter: Int, _ fault: ServiceFault?
    ) throws(SQLiteError) {
        let isTaken = (200..<300).contains(status)
        let pause =
            Self.retrySeconds.indices.contains(delivery.attempts)
            ? max(Self.retrySeconds[delivery.attempts], retryAfter) : nil
        if !isTaken, retryAfter > 0 { pauseEnd = MonotonicClock.now + .seconds(retryAfter) }
        if status == Self.gone { disable() }
        let isOver = isTaken || status == Self.gone || pause == nil
        if isOver {
            try spool.run("DELETE FROM webhooks WHERE id = ?", .text(delivery.id))
        } else if let pause {
            try spool.run(
                """
                UPDATE webhooks SET attempts = attempts + 1, due_ms = ?, pause_ms = ? WHERE id = ?
                """,
                .integer(WallClock.milliseconds + pause * 1_000), .integer(pause * 1_000),
                .text(delivery.id))
        }
        tally.withLock {
            if isTaken { $0.delivered += 1 } else { $0.failed += 1 }
            if isOver, !isTaken { $0.lost += 1 }
            if isOver { $0.waiting -= 1 }
        }
        note(isTaken ? nil : fault)
    }

    private func disable() {
        guard !isDisabled else { return }
        isDisabled = true
        logger.error(
            "the receiver of webhooks wants no more (410): events are dropped until a restart or SIGHUP"
        )
    }

    /// Notes whether the receiver took an event.
    private func note(_ fault: ServiceFault?) {
        if fault == nil, isFailing { logger.info("webhooks are taken again") }
        isFailing = fault != nil
        guard let fault, !isDisabled else { return }
        faults.note(fault, at: MonotonicClock.now, logger: logger)
    }

    private func release(_ easy: UnsafeMutableRawPointer) {
        let delivery = sending.removeValue(forKey: easy)
        curl_multi_remove_handle(multi, easy)
        curl_easy_cleanup(easy)
        curl_slist_free_all(delivery?.headers)
    }

    /// Makes deliveries under way due now: the next start, or another server, sends them again.
    private func abandon() {
        let now = WallClock.milliseconds
        for (easy, delivery) in sending {
            _ = try? spool.run(
                "UPDATE webhooks SET due_ms = ? WHERE id = ?", .integer(now), .text(delivery.id))
            release(easy)
        }
    }
}
