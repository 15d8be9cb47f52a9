// The door between agents' tasks and their shard: an actor on the shard's own executor. Tasks leave
// what their agents produced here and sleep here; the shard takes it in its tick, on the same
// thread.
//
// Invariant: every sleeper has exactly one deadline; everyone who sleeps, or waits for room, is
// resumed exactly once: by time, by the room, or by the cancellation of his task.

import Session

/// Something that an agent produced, and for whom.
struct AgentDelivery: Sendable {
    /// The connection of the session. It may be gone.
    let token: EventToken
    /// The task that produced it. It may be cancelled.
    let serial: UInt64
    let event: AgentEvent
}

/// What agents' tasks and their shard share.
actor ShardGate {
    private struct Sleeper {
        let id: UInt64
        let deadline: DeadlineQueue<UInt64>.Handle
        let continuation: CheckedContinuation<Void, any Error>
    }

    /// Why tasks wait before they deliver.
    private enum Hold: Hashable {
        /// A connection's peer reads too slowly: everything of its session waits.
        case slowReader(EventToken)
        /// Enough speech of a task waits to be sent: more of it waits.
        case enoughSpeech(serial: UInt64)
        /// A task has left so much speech that the shard should first say whether it is enough.
        case untakenSpeech(serial: UInt64)
        /// A task has left so much in a row that the shard should first say who reads it.
        case untakenRun(serial: UInt64)
    }

    /// Bytes of speech that one task may leave before the shard takes them. 64 KiB: two seconds of
    /// samples, far more than is made between two ticks of a shard that keeps up.
    static let maxUntakenSpeechBytes = 64 << 10

    /// Deliveries that one task may leave in a row before it waits for the shard to take them: a
    /// model that never waits would else say everything within one tick, before anybody can hold
    /// it up. 16: a piece of an answer has few events.
    private static let maxRun = 16

    /// A task that waits until what holds it up is over.
    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Void, Never>
    }

    nonisolated let executor: ShardExecutor
    // Touched on the shard's thread only, which is the actor's: also by what is not isolated.
    @exclusivity(unchecked) private nonisolated(unsafe) var deliveries: [AgentDelivery] = []
    /// Who delivered last since the shard took what was there, and how often in a row.
    @exclusivity(unchecked) private nonisolated(unsafe) var lastSerial: UInt64 = 0
    @exclusivity(unchecked) private nonisolated(unsafe) var run = 0
    /// What holds tasks up now, and who waits for the end of each, in order.
    @exclusivity(unchecked) private nonisolated(unsafe) var holds: [Hold: [Waiter]] = [:]
    /// Whose tasks hold other than at the last tick's end; some several times.
    @exclusivity(unchecked) private nonisolated(unsafe) var chargedOwners: [EventToken] = []
    /// Bytes of speech that the shard has not taken yet, by the task that left them.
    private var untakenSpeech: [UInt64: Int] = [:]
    /// The tasks that wait for that, in order.
    private var untakenHolds: [Hold] = []
    private var nextWaiter: UInt64 = 0
    private var sleepers: [UInt64: Sleeper] = [:]
    private var deadlines = DeadlineQueue<UInt64>()
    private var nextSleeper: UInt64 = 0

    // What the shard asks or tells in every tick. It is on the actor's thread, and asks past
    // `assumeIsolated`, which would allocate four times per tick.
    private nonisolated(unsafe) var now: Instant
    /// The next sleeper's deadline.
    private(set) nonisolated(unsafe) var nextDeadline: Instant?
    /// Whether something waits for the shard's step.
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

    /// Leaves something for the shard's next step, where the caller is on its thread and nothing
    /// holds it up: a task that produces 50 pieces a second then never leaves its place for it,
    /// which would be two jobs each.
    /// - Returns: false: `deliver` must do it.
    nonisolated func deliverAtOnce(_ delivery: AgentDelivery) -> Bool {
        if case .speech = delivery.event { return false }
        guard executor.isOnThread, holds.isEmpty else { return false }
        run = delivery.serial == lastSerial ? run + 1 : 1
        lastSerial = delivery.serial
        guard run <= Self.maxRun else { return false }
        deliveries.append(delivery)
        hasDeliveries = true
        return true
    }

    /// Leaves something for the shard's next step. Suspends the caller first while the peer of its
    /// session reads too slowly, or while enough of its speech waits to be sent; a cancelled caller
    /// is not held up.
    func deliver(_ delivery: AgentDelivery) async {
        // Again and again: another task of the session may have filled the room at once.
        while let hold = hold(on: delivery), !Task.isCancelled { await waitForEnd(of: hold) }
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

    private func beginUntaken(_ hold: Hold) {
        if holds[hold] == nil { untakenHolds.append(hold) }
        begin(hold)
    }

    /// A task holds more or less than before. One on another thread is seen with the next thing
    /// that happens to its session.
    nonisolated func noteCharge(of owner: EventToken) {
        if executor.isOnThread { chargedOwners.append(owner) }
    }

    /// What holds a delivery up now. Only sound waits for sound to be sent: that a clause is over
    /// takes no room, and frees what its synthesis holds.
    private func hold(on delivery: AgentDelivery) -> Hold? {
        guard !holds.isEmpty else { return nil }
        let slowReader = Hold.slowReader(delivery.token)
        if holds[slowReader] != nil { return slowReader }
        let untakenRun = Hold.untakenRun(serial: delivery.serial)
        if holds[untakenRun] != nil { return untakenRun }
        guard case .speech = delivery.event else { return nil }
        let enoughSpeech = Hold.enoughSpeech(serial: delivery.serial)
        if holds[enoughSpeech] != nil { return enoughSpeech }
        let untakenSpeech = Hold.untakenSpeech(serial: delivery.serial)
        return holds[untakenSpeech] != nil ? untakenSpeech : nil
    }

    private func waitForEnd(of hold: Hold) async {
        let id = nextWaiter
        nextWaiter += 1
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // A cancellation, or the room, before this point found nobody to wake.
                guard !Task.isCancelled, holds[hold] != nil else {
                    continuation.resume()
                    return
                }
                holds[hold]?.append(Waiter(id: id, continuation: continuation))
            }
        } onCancel: {
            onThread { $0.endWait(id, for: hold) }
        }
    }

    private func endWait(_ id: UInt64, for hold: Hold) {
        guard let index = holds[hold]?.firstIndex(where: { $0.id == id }) else { return }
        holds[hold]?.remove(at: index).continuation.resume()
    }

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
                // A cancellation before this point found no sleeper to wake.
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

    /// Cancellation comes on any thread, mostly the shard's.
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

    /// The connection's peer reads too slowly: whoever has something for its session waits.
    func hold(_ token: EventToken) { begin(.slowReader(token)) }

    /// The connection has room again, or is gone: whoever waits goes on.
    func release(_ token: EventToken) { end(.slowReader(token)) }

    /// Enough speech of this task waits to be sent: its next piece waits.
    func holdSpeech(ofTask serial: UInt64) { begin(.enoughSpeech(serial: serial)) }

    /// More speech of this task is wanted, or none ever will be.
    func releaseSpeech(ofTask serial: UInt64) { end(.enoughSpeech(serial: serial)) }

    private func begin(_ hold: Hold) {
        if holds[hold] == nil { holds[hold] = [] }
    }

    private func end(_ hold: Hold) {
        for waiter in holds.removeValue(forKey: hold) ?? [] { waiter.continuation.resume() }
    }

    /// Takes note of the time and wakes the sleepers whose time has come.
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

    /// Takes whose tasks hold other than before. On the shard's thread.
    nonisolated func takeChargedOwners() -> [EventToken] {
        guard !chargedOwners.isEmpty else { return [] }
        defer { chargedOwners = [] }
        return chargedOwners
    }

    /// Takes what was delivered, in order.
    /// - Parameter taken: empty; its memory is used for the next ones.
    func takeDeliveries(into taken: inout [AgentDelivery]) {
        hasDeliveries = false
        run = 0
        if !untakenHolds.isEmpty {
            for hold in untakenHolds { end(hold) }
            untakenHolds.removeAll(keepingCapacity: untakenHolds.count <= 64)
        }
        if !untakenSpeech.isEmpty {
            untakenSpeech.removeAll(keepingCapacity: untakenSpeech.count <= 64)
        }
        swap(&deliveries, &taken)
    }
}
