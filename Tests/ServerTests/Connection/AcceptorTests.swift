// Listeners, turns and pauses of accepting, without a shard.

import CLinux
import Codec
import Session
import Synchronization
import Testing

@testable import Server

/// A kernel with one listener, which says what accepting comes to.
private final class ScriptedIO: IO {
    var outcomes: [IOOutcome] = []
    var spare: [IOOutcome] = []
    var watchCode: Int32 = 0
    private(set) var watched: Set<IOHandle> = []
    private(set) var closed: [IOHandle] = []

    var now: Instant { .milliseconds(0) }
    var wake: @Sendable () -> Void { {} }
    func wait(until deadline: Instant?, atMost limit: Int) -> Int { 0 }
    func readiness(at position: Int) -> Readiness { preconditionFailure("nothing is reported") }
    func accept(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome {
        outcomes.isEmpty ? .wouldBlock : outcomes.removeFirst()
    }
    func acceptOnSpare(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome {
        spare.isEmpty ? .wouldBlock : spare.removeFirst()
    }
    func read(_ handle: IOHandle, into buffer: UnsafeMutableRawBufferPointer) -> IOOutcome {
        .wouldBlock
    }
    func write(_ handle: IOHandle, _ bytes: UnsafeRawBufferPointer) -> IOOutcome { .wouldBlock }
    func peer(of handle: IOHandle) -> NetworkAddress { .unspecified }
    func finishWriting(_ handle: IOHandle) {}
    func close(_ handle: IOHandle) { closed.append(handle) }
    func watch(
        _ handle: IOHandle, for interest: Interest, token: EventToken, isNew: Bool
    ) -> Int32 {
        if watchCode == 0 { watched.insert(handle) }
        return watchCode
    }
    func unwatch(_ handle: IOHandle) { watched.remove(handle) }
}

@Suite struct AcceptorTests {
    private let io = ScriptedIO()

    private func acceptor(_ listeners: IOHandle...) throws -> Acceptor<ScriptedIO> {
        var acceptor = Acceptor(io: io)
        for listener in listeners { try acceptor.listen(on: listener) }
        return acceptor
    }

    @Test func aListenerThatCannotBeWatchedIsNotTaken() {
        io.watchCode = ENOSPC
        var acceptor = Acceptor(io: io)
        #expect(throws: IOError(call: "epoll_ctl", code: ENOSPC)) {
            try acceptor.listen(on: 3)
        }
        #expect(acceptor.listeners.isEmpty)
    }

    @Test func acceptingTellsAPeerThatLeftFromAWantOfDescriptors() throws {
        let acceptor = try acceptor(3)
        io.outcomes = [
            .done(7), .failed(ECONNABORTED), .failed(EPROTO), .failed(EMFILE), .failed(ENFILE),
            .failed(ENOMEM), .wouldBlock,
        ]
        let outcomes = (0..<7).map { _ in acceptor.accept(from: 3) }
        #expect(
            outcomes == [
                .accepted(7, from: .unspecified), .peerLeft, .peerLeft, .failed(EMFILE),
                .failed(ENFILE), .failed(ENOMEM), .none,
            ])
        #expect(outcomes.map(\.isOutOfDescriptors).filter(\.self).count == 2)
    }

    @Test func theSpareDescriptorTakesOneThatWaits() throws {
        let acceptor = try acceptor(3)
        io.spare = [.done(9), .failed(EMFILE)]
        #expect(acceptor.acceptOnSpare(from: 3)?.handle == 9)
        #expect(acceptor.acceptOnSpare(from: 3) == nil)
    }

    @Test func aPauseStopsWatchingAndEndsWithWatching() throws {
        var acceptor = try acceptor(3, 4)
        #expect(io.watched == [3, 4])
        _ = acceptor.pause(at: .milliseconds(0))
        #expect(acceptor.isPaused && io.watched.isEmpty)
        io.watchCode = ENOMEM
        let failed = acceptor.resume()
        #expect(failed == ENOMEM)
        _ = acceptor.pause(at: .milliseconds(0))
        io.watchCode = 0
        let resumed = acceptor.resume()
        #expect(resumed == 0 && !acceptor.isPaused && io.watched == [3, 4])
        let again = acceptor.resume()
        #expect(again == 0)
    }

    /// At the limit, pauses and single accepts alternate; the log has one line for all of them.
    @Test func onlyTheFirstPauseAndTheEndOfAllAreNews() throws {
        var acceptor = try acceptor(3)
        var isAccepted = acceptor.handleAccepted(at: .milliseconds(0))
        #expect(!isAccepted)
        for time in stride(from: 0, to: 5_000, by: 500) {
            let isFirst = acceptor.pause(at: .milliseconds(time))
            #expect(isFirst == (time == 0))
            _ = acceptor.resume()
            isAccepted = acceptor.handleAccepted(at: .milliseconds(time + 400))
            #expect(!isAccepted)
        }
        isAccepted = acceptor.handleAccepted(at: .milliseconds(14_500))
        #expect(isAccepted)
        isAccepted = acceptor.handleAccepted(at: .milliseconds(14_600))
        #expect(!isAccepted)
        let isFirst = acceptor.pause(at: .milliseconds(15_000))
        #expect(isFirst)
    }

    @Test func connectionsOfASupervisorsSocketAreDealtOutInTurn() throws {
        var acceptor = try acceptor(3)
        let given = Mutex<[Int]>([])
        acceptor.duty = .inherited(
            (1...2).map { number in
                ShardSibling(
                    adopt: { _, _ in given.withLock { $0.append(number) } }, drain: { _ in })
            })
        for _ in 0..<6 {
            if let sibling = acceptor.nextOwner() {
                sibling.adopt(1, .unspecified)
            } else {
                given.withLock { $0.append(0) }
            }
        }
        #expect(given.withLock { $0 } == [1, 2, 0, 1, 2, 0])
        acceptor.duty = .own
        let owner = acceptor.nextOwner()
        #expect(owner == nil)
    }

    @Test func theHandOverIsWatchedLikeAListenerUntilTheListenersClose() throws {
        let (handover, _) = try PortHandover.join("acceptor \(getpid())")
        let asking = handover.handle
        var acceptor = try acceptor(3)
        io.watchCode = ENOSPC
        #expect(throws: IOError(call: "epoll_ctl", code: ENOSPC)) { try acceptor.offer(handover) }
        io.watchCode = 0
        try acceptor.offer(handover)
        #expect(io.watched == [3, asking])
        _ = acceptor.pause(at: .milliseconds(0))
        #expect(io.watched.isEmpty, "without descriptors no successor can be answered")
        let code = acceptor.resume()
        #expect(code == 0 && io.watched == [3, asking])
        acceptor.closeListeners()
        #expect(io.watched.isEmpty && io.closed == [3] && acceptor.handover == nil)
    }

    @Test func closingForgetsTheListeners() throws {
        var acceptor = try acceptor(3, 4)
        acceptor.closeListeners()
        #expect(io.closed == [3, 4] && io.watched.isEmpty && acceptor.listeners.isEmpty)
    }
}
