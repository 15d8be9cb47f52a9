// The places of kept replies: which reply gets one, and which loses it. No shard, no clock.

import Codec
import Testing

@testable import Server

@Suite struct ReplyDirectoryTests {
    private func log() -> ReplyLog { ReplyLog(messageID: "m") {} }

    private func chat(_ owner: String, _ number: Int) -> ChatKey {
        ChatKey(
            user: SHA256Digest(of: owner), principal: SHA256Digest(of: owner), id: "\(number)")
    }

    @Test func usersOfOneKeyShareItsPlaces() {
        let directory = ReplyDirectory(limit: 4)
        let modest = insert(1, of: "a", into: directory, complete: true).logs
        for number in 0..<10 {
            let user = SHA256Digest(of: "secret \(number)")
            let chat = ChatKey(user: user, principal: SHA256Digest(of: "b"), id: "1")
            _ = directory.insert(log(), of: chat)
        }
        #expect(directory.count == 4)
        #expect(held(modest, of: "a", in: directory) == [true])
    }

    /// Inserts replies of an owner; returns their logs and those that lost their places.
    private func insert(
        _ count: Int, of owner: String, into directory: ReplyDirectory, complete: Bool = false
    ) -> (logs: [ReplyLog], lost: [ReplyLog]) {
        var logs: [ReplyLog] = []
        var lost: [ReplyLog] = []
        for number in 0..<count {
            let log = log()
            if let evicted = directory.insert(log, of: chat(owner, number)) { lost.append(evicted) }
            if complete { directory.handleComplete(log, of: chat(owner, number)) }
            logs.append(log)
        }
        return (logs, lost)
    }

    private func held(_ logs: [ReplyLog], of owner: String, in directory: ReplyDirectory) -> [Bool]
    {
        logs.indices.map { directory.contains(logs[$0], of: chat(owner, $0)) }
    }

    @Test(arguments: [false, true])
    func manyRepliesOfOneOwnerPushOutNoneOfAnother(areComplete: Bool) {
        let directory = ReplyDirectory(limit: 4)
        let modest = insert(1, of: "a", into: directory, complete: true).logs
        let flood = insert(10, of: "b", into: directory, complete: areComplete).logs
        #expect(directory.count == 4)
        #expect(held(modest, of: "a", in: directory) == [true])
        let kept = held(flood, of: "b", in: directory)
        let last = [Bool](repeating: false, count: 7) + [true, true, true]
        #expect(kept == (areComplete ? last : last.reversed()))
    }

    @Test func anOwnerBelowItsShareTakesAPlaceOfAReplyThatIsOnItsWay() {
        let directory = ReplyDirectory(limit: 4)
        let flood = insert(4, of: "b", into: directory).logs
        let first = insert(2, of: "a", into: directory)
        #expect(first.lost.map(ObjectIdentifier.init) == flood[..<2].map(ObjectIdentifier.init))
        #expect(held(flood, of: "b", in: directory) == [false, false, true, true])
        // Both have their share now.
        let third = log()
        #expect(directory.insert(third, of: chat("a", 2)) == nil)
        #expect(!directory.contains(third, of: chat("a", 2)) && directory.count == 4)
    }

    @Test func theOldestCompleteReplyOfTheLargestOwnerGoesFirst() {
        let directory = ReplyDirectory(limit: 5)
        let a = insert(2, of: "a", into: directory, complete: true).logs
        let b = insert(3, of: "b", into: directory).logs
        directory.handleComplete(b[1], of: chat("b", 1))
        let c = insert(1, of: "c", into: directory)
        #expect(c.lost.first === b[1] && c.lost.count == 1)
        #expect(held(a, of: "a", in: directory) == [true, true])
    }

    @Test func aChatReplacesItsOwnReplyAndNoOther() {
        let directory = ReplyDirectory(limit: 2)
        let logs = insert(2, of: "a", into: directory).logs
        let newer = log()
        #expect(directory.insert(newer, of: chat("a", 0)) === logs[0])
        #expect(directory.contains(newer, of: chat("a", 0)) && directory.count == 2)
        directory.remove(logs[0], of: chat("a", 0))
        #expect(directory.contains(newer, of: chat("a", 0)), "the older one is not there")
        directory.remove(newer, of: chat("a", 0))
        directory.remove(logs[1], of: chat("a", 1))
        #expect(directory.count == 0)
        let again = insert(2, of: "b", into: directory)
        #expect(again.lost.isEmpty && directory.count == 2, "places were given back")
    }

    @Test func aDirectoryWithoutPlacesKeepsNothing() {
        let directory = ReplyDirectory(limit: 0)
        #expect(insert(3, of: "a", into: directory).lost.isEmpty && directory.count == 0)
    }
}
