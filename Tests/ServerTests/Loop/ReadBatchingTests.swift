// When reads that may be batched are reported, and that epoll reports each of them.

import CLinux
import Session
import Testing

@testable import Server

@Suite struct ReadBatchingTests {
    private func time(_ milliseconds: Int64) -> Instant {
        Instant(nanoseconds: 1_000_000_000 + milliseconds * 1_000_000)
    }

    /// 50 packets a second of one session.
    @Test func fewReportsComeAtOnce() {
        var batching = ReadBatching()
        for packet in 0..<100 {
            batching.handle(1, leavesOthers: false, at: time(20 * Int64(packet)))
            #expect(batching.due == nil)
        }
    }

    @Test func manyReportsComeTogether() {
        var batching = ReadBatching()
        for report in 1...ReadBatching.busyReports {
            #expect(batching.due == nil)
            batching.handle(1, leavesOthers: false, at: time(Int64(report) / 2))
        }
        #expect(batching.due == time(4) + ReadBatching.hold)
        batching.handle(40, leavesOthers: false, at: time(9))
        #expect(batching.due == time(14))
    }

    @Test(arguments: [(3, false), (4, true)])
    func reportsAreHeldWhileThereAreMany(reports: Int, isHeld: Bool) {
        var batching = ReadBatching()
        batching.handle(ReadBatching.busyReports, leavesOthers: false, at: time(0))
        batching.handle(reports, leavesOthers: false, at: time(5))
        #expect((batching.due != nil) == isHeld)
        // What was counted before is over.
        batching.handle(0, leavesOthers: false, at: time(10))
        batching.handle(ReadBatching.busyReports - 1, leavesOthers: false, at: time(16))
        #expect(batching.due == nil)
    }

    @Test func whatFoundNoRoomComesWithTheNextWait() {
        var batching = ReadBatching()
        batching.handle(64, leavesOthers: true, at: time(1))
        #expect(batching.due == time(1))
    }
}

@Suite struct EpollBatchTests {
    /// Descriptors that are readable, and watched by an epoll.
    private final class Watched {
        let io: EpollIO
        private(set) var descriptors: [Int32] = []

        init() throws { io = try EpollIO() }

        deinit { for descriptor in descriptors { close(descriptor) } }

        @discardableResult
        func add(_ interest: Interest) -> Int32 {
            let descriptor = eventfd(1, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
            descriptors.append(descriptor)
            let code = io.watch(
                descriptor, for: interest, token: token(descriptor), isNew: true)
            #expect(code == 0)
            return descriptor
        }

        func token(_ descriptor: Int32) -> EventToken {
            EventToken(.connection, index: Int(descriptor), generation: 0)
        }

        /// The descriptors that are reported in several waits.
        func reported(waits: Int) -> Set<Int> {
            var seen: Set<Int> = []
            for _ in 0..<waits {
                let count = io.wait(
                    until: io.now + ReadBatching.hold * 4, atMost: EpollIO.maxEventsPerWait)
                for position in 0..<count { seen.insert(io.readiness(at: position).token.index) }
            }
            return seen
        }
    }

    @Test func everyHandleIsReported() throws {
        let watched = try Watched()
        // More of each kind than one wait takes.
        for _ in 0..<EpollIO.maxEventsPerWait * 2 {
            watched.add(.reads)
            watched.add([.reads, .batched])
        }
        let all = Set(watched.descriptors.map(Int.init))
        var seen: Set<Int> = []
        // The kernel reports ready handles in turns.
        for _ in 0..<100 where seen != all { seen.formUnion(watched.reported(waits: 1)) }
        #expect(seen == all)
    }

    @Test func handlesThatALimitLeavesOutComeNext() throws {
        let watched = try Watched()
        for _ in 0..<12 { watched.add(.reads) }
        var seen: [Int] = []
        for _ in 0..<3 {
            #expect(watched.io.wait(until: nil, atMost: 4) == 4)
            seen += (0..<4).map { watched.io.readiness(at: $0).token.index }
        }
        #expect(Set(seen) == Set(watched.descriptors.map(Int.init)))
    }

    @Test func aWatchedHandleMayBecomeBatched() throws {
        let watched = try Watched()
        let descriptor = watched.add(.reads)
        for interest: Interest in [
            [.reads, .batched], [.writes, .batched], [.writes], [.batched],
        ] {
            let code = watched.io.watch(
                descriptor, for: interest, token: watched.token(descriptor), isNew: false)
            #expect(code == 0)
            let isReported = watched.reported(waits: 2).contains(Int(descriptor))
            #expect(isReported == (interest != .batched))
        }
    }

    @Test(arguments: [Interest.reads, [.reads, .batched]])
    func anUnwatchedHandleIsNotReported(interest: Interest) throws {
        let watched = try Watched()
        let (descriptor, other) = (watched.add(interest), watched.add(interest))
        watched.io.unwatch(descriptor)
        #expect(watched.reported(waits: 3) == [Int(other)])
        // It may be watched again, as a new one.
        let code = watched.io.watch(
            descriptor, for: interest, token: watched.token(descriptor), isNew: true)
        #expect(code == 0 && watched.reported(waits: 3).contains(Int(descriptor)))
    }

    @Test func aHandleIsNotWatchedTwice() throws {
        let watched = try Watched()
        let descriptor = watched.add([.reads, .batched])
        let code = watched.io.watch(
            descriptor, for: [.reads, .batched], token: watched.token(descriptor), isNew: true)
        #expect(code == EEXIST)
    }
}
