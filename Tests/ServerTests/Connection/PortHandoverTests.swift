// The hand-over of a port between two objects of one process, on real sockets. Tests/clients has the
// same between servers, and with another user's process. Waiting is `poll` on a socket, never a sleep.

import CLinux
import Session
import Synchronization
import Testing

@testable import Server

/// A thread that joins the servers of a port, as a successor does while it starts.
private final class Successor: @unchecked Sendable {
    private let pool = WorkerPool(threads: 1, maxQueued: 0)
    private let joined = Mutex<Result<[IOHandle], HandoverError>?>(nil)
    /// Set by the thread, and read after it has ended.
    private(set) var handover: PortHandover?

    init(of name: String) {
        let isStarted = pool.submit { [self] in
            let result: Result<[IOHandle], HandoverError>
            do throws(HandoverError) {
                let (handover, sockets) = try PortHandover.join(name)
                self.handover = handover
                result = .success(sockets)
            } catch {
                result = .failure(error)
            }
            joined.withLock { $0 = result }
        }
        precondition(isStarted)
    }

    /// Waits for the end of the thread.
    /// - Returns: the listening sockets, which are the caller's.
    func sockets() throws -> [IOHandle] {
        pool.shutdown()
        return try #require(joined.withLock { $0 }).get()
    }
}

@Suite struct PortHandoverTests {
    /// A name that no other test has.
    private func name(_ test: String = #function) -> String { "\(test) \(getpid())" }

    /// A listening socket of this machine, on a free port.
    private func listen() throws -> ListeningSocket {
        let settings = ListenerSettings()
        return try ListeningSocket(try ListeningSocket.resolve(settings), port: 0, settings)
    }

    /// Accepts one connection of a successor.
    private func accept(at handover: PortHandover) throws -> IOHandle {
        var wait = pollfd(fd: handover.handle, events: Int16(POLLIN), revents: 0)
        try #require(poll(&wait, 1, HangGuard.milliseconds) == 1)
        let connection = parley_accept(handover.handle, nil, nil)
        try #require(connection >= 0)
        return connection
    }

    /// Lets a successor join.
    private func handOver(_ handover: PortHandover, _ name: String) throws -> (
        PortHandover, sockets: [IOHandle]
    ) {
        let successor = Successor(of: name)
        let connection = try accept(at: handover)
        handover.pass(to: connection)
        close(connection)
        let sockets = try successor.sockets()
        return (try #require(successor.handover), sockets)
    }

    private func inode(of handle: IOHandle) -> UInt {
        var status = stat()
        return fstat(handle, &status) == 0 ? UInt(status.st_ino) : 0
    }

    @Test func theSocketsOutliveTheServerThatOpenedThem() throws {
        let name = name()
        var first: PortHandover? = try PortHandover.join(name).0
        var opened: [ListeningSocket] = [try listen(), try listen()]
        for socket in opened { try first?.offer(socket.handle) }
        let inodes = opened.map { inode(of: $0.handle) }
        let (second, sockets) = try handOver(try #require(first), name)
        #expect(sockets.map(inode) == inodes)
        opened = []
        first = nil
        for socket in sockets {
            var listens: Int32 = 0
            var length = socklen_t(MemoryLayout<Int32>.size)
            getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length)
            #expect(listens == 1)
            try second.offer(socket)
            close(socket)
        }
        // The name is the second one's, too.
        let (_, passedOn) = try handOver(second, name)
        #expect(passedOn.map(inode) == inodes)
        passedOn.forEach { close($0) }
    }

    @Test func theNameIsFreeWhenItsLastServerHasEnded() throws {
        let name = name()
        for _ in 0..<2 {
            let (_, sockets) = try PortHandover.join(name)
            #expect(sockets.isEmpty)
        }
    }

    @Test func aServerThatEndsWhileASuccessorWaitsIsReplacedByIt() throws {
        let name = name()
        var first: PortHandover? = try PortHandover.join(name).0
        let successor = Successor(of: name)
        let connection = try accept(at: try #require(first))
        first = nil
        close(connection)
        #expect(try successor.sockets().isEmpty)
    }

    @Test func moreSocketsThanOneMessageHoldsArrive() throws {
        _ = DescriptorLimit.raise()
        let name = name()
        let (first, _) = try PortHandover.join(name)
        let socket = try listen()
        let count = Int(PARLEY_MAX_PASSED_DESCRIPTORS) + 20
        for _ in 0..<count { try first.offer(socket.handle) }
        let (_, sockets) = try handOver(first, name)
        #expect(sockets.count == count && Set(sockets.map(inode)) == [inode(of: socket.handle)])
        sockets.forEach { close($0) }
    }

    @Test func whatDoesNotListenIsNotTaken() throws {
        let name = name()
        let (first, _) = try PortHandover.join(name)
        let silent = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(silent) }
        try first.offer(silent)
        let reason = "a socket of the server that has the port does not listen"
        #expect(throws: HandoverError(reason: reason)) { _ = try handOver(first, name) }
    }

    @Test func aServerThatHangsDoesNotKeepItsSuccessorFromStarting() throws {
        let name = name()
        let (first, _) = try PortHandover.join(name)
        let reason = "the server that has the port does not answer"
        #expect(throws: HandoverError(reason: reason)) {
            _ = try PortHandover.join(name, patience: .milliseconds(1))
        }
        _ = first
    }

    @Test func aNameThatIsTooLongIsRefused() {
        #expect(throws: HandoverError(reason: "the name of the address is too long")) {
            _ = try PortHandover.join(String(repeating: "a", count: 108))
        }
    }
}
