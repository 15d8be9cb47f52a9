// The gate between agents' tasks and their shard: an actor on the shard's own executor. Tasks leave
// the results of their agents here, and sleep here; the shard takes the results in its tick, on the
// same thread.
//
// Invariant: every sleeper has exactly one deadline. A task that sleeps, or is suspended, is
// resumed exactly once: by time, by the end of the suspension, or by its cancellation.

import Session

/// A result of an agent, and the session that it is for.
struct AgentDelivery: Sendable {
    /// The token of the session, which may be gone.
    let token: EventToken
    /// The task that produced it. It may be cancelled.
    let serial: UInt64
    let event: AgentEvent
}

/// The state that agents' tasks and their shard share.
actor ShardGate {
    private struct Sleeper {
        let id: UInt64
        let deadline: DeadlineHandle
        let continuation: CheckedContinuation<Void, any Error>
    }

    /// A reason for which tasks are suspended before they deliver.
    private enum Suspension: Hashable {
        /// A connection's peer reads too slowly: all deliveries for its session wait.
        case slowReader(EventToken)
        /// Enough speech of a task waits to be sent: its next speech waits.
        case enoughSpeech(serial: UInt64)
        /// A task has produced so much speech that the shard must first decide whether that is
        /// enough.
        case untakenSpeech(serial: UInt64)
        /// A task has made so many deliveries in a row that the shard must first take them.
        case untakenRun(serial: UInt64)
    }

    /// Bytes of speech that one task may leave before the shard takes them. 64 KiB: two seconds of
    /// samples. A shard that keeps up gets far less between two ticks.
    static let maxUntakenSpeechBytes = 64 << 10

    /// Deliveries that one task may leave in a row before it waits for the shard to take them. A
    /// model that never waits would otherwise deliver all of its reply within one tick, before it
    /// can be suspended. 16: a piece of an answer has few events.
    private static let maxRun = 16

    /// A task that waits for the end of a suspension.
    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Void, Never>
    }

    nonisolated let executor: ShardExecutor
    // Used on the shard's thread only, which is the actor's, also by functions that are not
    // isolated.
    @exclusivity(unchecked)  // 3,500 instructions a typed turn.
    private nonisolated(unsafe) var deliveries: [AgentDelivery] = []
    /// The task that delivered last since the shard took the deliveries, and how often in a row.
    private nonisolated(unsafe) var lastSerial: UInt64 = 0
    private nonisolated(unsafe) var run = 0
    /// The suspensions, and the tasks that wait for the end of each, in order.
    private nonisolated(unsafe) var suspensions: [Suspension: [Waiter]] = [:]
    /// The owners of tasks whose memory has changed since the last tick's end; some are listed
    /// several times.
    @exclusivity(unchecked)  // 68 instructions an echo.
    private nonisolated(unsafe) var chargedOwners: [EventToken] = []
    /// Finds the facts that an agent may know of a session; set once, on the shard's thread.
    private nonisolated(unsafe) var describe: (EventToken) -> SessionFacts? = { _ in nil }
    /// Bytes of speech that the shard has not taken yet, by the task that left them.
    private var untakenSpeech: [UInt64: Int] = [:]
    /// The suspensions that end when the shard takes the deliveries, in order.
    private var untakenSuspensions: [Suspension] = []
    private var nextWaiter: UInt64 = 0
    private var sleepers: [UInt64: Sleeper] = [:]
    private var deadlines = DeadlineQueue<UInt64>()
    private var nextSleeper: UInt64 = 0

    // The shard uses these in every tick. It is on the actor's thread, and does without
    // `assumeIsolated`, which would allocate four times per tick.
    private nonisolated(unsafe) var now: Instant
    /// The next sleeper's deadline.
    private(set) nonisolated(unsafe) var nextDeadline: Instant?
    /// Whether deliveries wait for the shard's step.
    private(set) nonisolated(unsafe) var hasDeliveries = false

    /// Creates the gate of one shard.
    init(executor: ShardExecutor, at now: Instant) {
        self.executor = executor
        self.now = now
    }

    nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.serial.asUnownedSerialExecutor()
    }

    // MARK: For agents' tasks

    /// Leaves a delivery for the shard's next step, if the caller is on its thread and no task is
    /// suspended. A task that produces 50 pieces a second so saves two jobs for each.
    /// - Returns: false: `deliver` must do it.
    nonisolated func deliverAtOnce(_ delivery: AgentDelivery) -> Bool {
        if case .speech = delivery.event { return false }
        guard executor.isOnThread, suspensions.isEmpty else { return false }
        run = delivery.serial == lastSerial ? run + 1 : 1
        lastSerial = delivery.serial
        guard run <= Self.maxRun else { return false }
        deliveries.append(delivery)
        hasDeliveries = true
        return true
    }

    /// Leaves a delivery for the shard's next step. Suspends the caller first while the peer of its
    /// session reads too slowly, or while enough of its speech waits to be sent. A cancelled caller
    /// is not suspended.
    func deliver(_ delivery: AgentDelivery) async {
        // In a loop: another task of the session may have used the room at once.
        while let suspension = suspension(of: delivery), !Task.isCancelled {
            await waitForEnd(of: suspension)
        }
        deliveries.append(delivery)
        hasDeliveries = true
        if case .speech(_, let chunk) = delivery.event {
            let bytes = untakenSpeech[delivery.serial, default: 0] + chunk.byteCount
            untakenSpeech[delivery.serial] = bytes
            guard bytes >= Self.maxUntakenSpeechBytes else { return }
            beginUntaken(.untakenSpeech(serial: delivery.serial))
        } else if run > Self.maxRun, lastSerial == delivery.serial {
            beginUntaken(.untakenRun(serial: delivery.serial))
        }
    }

    private func beginUntaken(_ suspension: Suspension) {
        if suspensions[suspension] == nil { untakenSuspensions.append(suspension) }
        begin(suspension)
    }

    /// The memory of a task has changed. A change on another thread counts with the next event of
    /// the session.
    nonisolated func noteCharge(of owner: EventToken) {
        if executor.isOnThread { chargedOwners.append(owner) }
    }

    /// The suspension of a delivery, if there is one. Only speech waits for speech to be sent: the
    /// end of a clause takes no room, and frees the memory of its synthesis.
    private func suspension(of delivery: AgentDelivery) -> Suspension? {
        guard !suspensions.isEmpty else { return nil }
        let slowReader = Suspension.slowReader(delivery.token)
        if suspensions[slowReader] != nil { return slowReader }
        let untakenRun = Suspension.untakenRun(serial: delivery.serial)
        if suspensions[untakenRun] != nil { return untakenRun }
        guard case .speech = delivery.event else { return nil }
        let enoughSpeech = Suspension.enoughSpeech(serial: delivery.serial)
        if suspensions[enoughSpeech] != nil { return enoughSpeech }
        let untakenSpeech = Suspension.untakenSpeech(serial: delivery.serial)
        return suspensions[untakenSpeech] != nil ? untakenSpeech : nil
    }

    private func waitForEnd(of suspension: Suspension) async {
        let id = nextWaiter
        nextWaiter += 1
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // A cancellation, or the end, before this point found no waiter.
                guard !Task.isCancelled, suspensions[suspension] != nil else {
                    continuation.resume()
                    return
                }
                suspensions[suspension]?.append(Waiter(id: id, continuation: continuation))
            }
        } onCancel: {
            onThread { $0.endWait(id, for: suspension) }
        }
    }

    private func endWait(_ id: UInt64, for suspension: Suspension) {
        guard let index = suspensions[suspension]?.firstIndex(where: { $0.id == id }) else {
            return
        }
        suspensions[suspension]?.remove(at: index).continuation.resume()
    }

    /// The facts of the session at `token`, or nil where it has ended, or is a request over HTTP.
    func facts(of token: EventToken) -> SessionFacts? { describe(token) }

    /// When the shard's tick began.
    var time: Instant { now }

    /// Suspends the caller for a while on the shard's clock.
    /// - Throws: `CancellationError` when its task is cancelled first.
    func sleep(for duration: Duration) async throws {
        let id = nextSleeper
        nextSleeper += 1
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation {
                (continuation: CheckedContinuation<Void, any Error>) in
                // A cancellation before this point found no sleeper.
                guard !Task.isCancelled else {
                    continuation.resume(throwing: CancellationError())
                    return
                }
                let deadline = deadlines.schedule(id, at: now + duration)
                sleepers[id] = Sleeper(id: id, deadline: deadline, continuation: continuation)
                nextDeadline = deadlines.next
            }
        } onCancel: {
            onThread { $0.endSleep(id) }
        }
    }

    /// Runs `body` on the shard's thread: a cancellation comes on any thread, mostly that one.
    private nonisolated func onThread(
        _ body: @escaping @Sendable (isolated ShardGate) -> Void
    ) {
        if executor.isOnThread {
            assumeIsolated(body)
        } else {
            Task(executorPreference: executor.task) { await body(self) }
        }
    }

    private func endSleep(_ id: UInt64) {
        guard let sleeper = sleepers.removeValue(forKey: id) else { return }
        deadlines.cancel(sleeper.deadline)
        nextDeadline = deadlines.next
        sleeper.continuation.resume(throwing: CancellationError())
    }

    // MARK: For the shard

    /// The connection's peer reads too slowly: deliveries for its session wait.
    func suspend(_ token: EventToken) { begin(.slowReader(token)) }

    /// The connection has room again, or is gone: its suspended tasks go on.
    func resume(_ token: EventToken) { end(.slowReader(token)) }

    /// Enough speech of this task waits to be sent: its next piece waits.
    func suspendSpeech(ofTask serial: UInt64) { begin(.enoughSpeech(serial: serial)) }

    /// Resumes a task of which more speech is wanted, or whose results do not count any more.
    func resumeSpeech(ofTask serial: UInt64) { end(.enoughSpeech(serial: serial)) }

    private func begin(_ suspension: Suspension) {
        if suspensions[suspension] == nil { suspensions[suspension] = [] }
    }

    private func end(_ suspension: Suspension) {
        for waiter in suspensions.removeValue(forKey: suspension) ?? [] {
            waiter.continuation.resume()
        }
    }

    /// The shard answers questions about its sessions with `describe`, which is called on its
    /// thread, between two steps of sessions.
    nonisolated func answerFacts(with describe: @escaping (EventToken) -> SessionFacts?) {
        self.describe = describe
    }

    /// Stores the time and resumes the sleepers whose time has come.
    nonisolated func handleTick(at now: Instant) {
        self.now = now
        guard let nextDeadline, nextDeadline <= now else { return }
        assumeIsolated { $0.wakeSleepers() }
    }

    private func wakeSleepers() {
        while let (id, _) = deadlines.popExpired(at: now) {
            sleepers.removeValue(forKey: id)?.continuation.resume()
        }
        nextDeadline = deadlines.next
    }

    /// Takes the owners of tasks whose memory has changed. On the shard's thread.
    nonisolated func takeChargedOwners() -> [EventToken] {
        guard !chargedOwners.isEmpty else { return [] }
        defer { chargedOwners = [] }
        return chargedOwners
    }

    /// Takes the deliveries, in order.
    /// - Parameter taken: empty; its memory is used for the next ones.
    func takeDeliveries(into taken: inout [AgentDelivery]) {
        hasDeliveries = false
        run = 0
        if !untakenSuspensions.isEmpty {
            for suspension in untakenSuspensions { end(suspension) }
            untakenSuspensions.removeAll(keepingCapacity: untakenSuspensions.count <= 64)
        }
        if !untakenSpeech.isEmpty {
            untakenSpeech.removeAll(keepingCapacity: untakenSpeech.count <= 64)
        }
        swap(&deliveries, &taken)
    }
}
