// How other threads reach a shard: a locked list and a wake-up. The only lock of a shard, taken
// once per tick and only when something was posted.

import Synchronization

/// Messages of any thread for one shard, in the order in which they were posted.
final class Mailbox<Message: Sendable>: Sendable {
    private let messages = Mutex<[Message]>([])
    /// Lets the owner skip the lock in ticks without messages.
    private let isFilled = Atomic<Bool>(false)
    private let wake: @Sendable () -> Void

    /// Creates a mailbox whose owner sleeps until `wake` is called.
    init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

    /// Posts a message; wakes the owner only if there was none, as it then is or soon will be
    /// awake.
    func post(_ message: Message) {
        let isFirst = messages.withLock {
            $0.append(message)
            return $0.count == 1
        }
        guard isFirst else { return }
        isFilled.store(true, ordering: .releasing)
        wake()
    }

    /// Moves all messages into `taken`, which must be empty; its memory is used for the next ones.
    /// - Returns: whether there were any. Without messages the cost is a load. It may miss a
    ///   message whose wake-up is still to come.
    func take(into taken: inout [Message]) -> Bool {
        guard isFilled.load(ordering: .relaxed),
            isFilled.exchange(false, ordering: .acquiringAndReleasing)
        else { return false }
        messages.withLock { swap(&$0, &taken) }
        return true
    }
}
