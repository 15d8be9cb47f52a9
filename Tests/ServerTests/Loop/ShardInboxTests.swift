// Commands of other threads.

import Codec
import Synchronization
import Testing

@testable import Server

@Suite struct ShardInboxTests {
    @Test func commandsComeInOrderAndWakeTheShardOnce() {
        let wakes = Mutex(0)
        var inbox = ShardInbox { wakes.withLock { $0 += 1 } }
        let before = inbox.take()
        #expect(before == nil)
        inbox.mailbox.post(.drain(after: .seconds(1)))
        inbox.mailbox.post(.stop(.goingAway))
        #expect(wakes.withLock { $0 } == 1)
        let taken = inbox.take()
        guard let taken, taken.count == 2, case .drain(after: .seconds(1)) = taken[0],
            case .stop(.goingAway) = taken[1]
        else {
            Issue.record("taken: \(String(describing: taken))")
            return
        }
        inbox.giveBack(taken)
        inbox.mailbox.post(.judgeMemory)
        let next = inbox.take()
        #expect(next?.count == 1 && wakes.withLock { $0 } == 2)
    }
}
