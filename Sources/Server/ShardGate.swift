// The door between agents' tasks and their shard: an actor on the shard's own executor. Tasks leave
// what their agents produced here and sleep here; the shard takes it in its turn, on the same
// thread.
//
// Invariant: every sleeper has exactly one deadline; everyone who sleeps, or waits for a slow
// reader, is resumed exactly once: by time, by the reader, or by the cancellation of his task.

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

    /// A task that waits until its session's connection has room.
    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Void, Never>
    }

    nonisolated let executor: ShardExecutor
    private var deliveries: [AgentDelivery] = []
    /// The connections whose peers read too slowly, and who waits for each, in order.
    private var congested: [EventToken: [Waiter]] = [:]
    private var nextWaiter: UInt64 = 0
    private var sleepers: [UInt64: Sleeper] = [:]
    private var deadlines = DeadlineQueue<UInt64>()
    private var nextSleeper: UInt64 = 0

    // What the shard asks or tells in every turn. It is on the actor's thread, and asks past
    // `assumeIsolated`, which would allocate four times per turn.
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

    /// Leaves something for the shard's next step. Suspends the caller first while the peer of its
    /// session reads too slowly; a cancelled caller is not held up.
    func deliver(_ delivery: AgentDelivery) async {
        // Again and again: another task of the session may have filled the room at once.
        while !congested.isEmpty, congested[delivery.token] != nil, !Task.isCancelled {
            await waitForRoom(of: delivery.token)
        }
        deliveries.append(delivery)
        hasDeliveries = true
    }

    private func waitForRoom(of token: EventToken) async {
        let id = nextWaiter
        nextWaiter += 1
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // A cancellation, or the room, before this point found nobody to wake.
                guard !Task.isCancelled, congested[token] != nil else {
                    continuation.resume()
                    return
                }
                congested[token]?.append(Waiter(id: id, continuation: continuation))
            }
        } onCancel: {
            onThread { $0.endWait(id, of: token) }
        }
    }

    private func endWait(_ id: UInt64, of token: EventToken) {
        guard let index = congested[token]?.firstIndex(where: { $0.id == id }) else { return }
        congested[token]?.remove(at: index).continuation.resume()
    }

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
    func hold(_ token: EventToken) {
        if congested[token] == nil { congested[token] = [] }
    }

    /// The connection has room again, or is gone: whoever waits goes on.
    func release(_ token: EventToken) {
        for waiter in congested.removeValue(forKey: token) ?? [] { waiter.continuation.resume() }
    }

    /// Takes note of the time and wakes the sleepers whose time has come.
    nonisolated func handleTurn(at now: Instant) {
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

    /// Takes what was delivered, in order.
    func takeDeliveries() -> [AgentDelivery] {
        hasDeliveries = false
        defer { deliveries.removeAll(keepingCapacity: deliveries.count <= 64) }
        return deliveries
    }
}
