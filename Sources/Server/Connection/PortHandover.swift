// The hand-over of a port from a server to its successor on the same machine. The successor gets
// the listening sockets themselves (SCM_RIGHTS, unix(7)). The kernel closes a listening socket with
// its last descriptor, so the end of one server resets neither the connections in a queue nor the
// handshakes under way. No time is involved: a descriptor in a message counts as well.
//
// A successor asks at a Unix socket in the abstract namespace, whose name has the address and the
// port. The name belongs to the network namespace, as the port does, and ends with the last
// descriptor. The successor gets that socket as well. Until the first server drains, it accepts
// from the same sockets.
//
// Invariant: descriptors go to processes of this user only, and are taken from them only. The
// kernel has the same rule for sockets that share a port (SO_REUSEPORT, socket(7)).

import CLinux
import Session

/// Why a port cannot be handed over, as a part of a log line.
struct HandoverError: Error, Equatable {
    let reason: String
}

/// The sockets of one port, as a server passes them on. Confined to one thread at a time.
package final class PortHandover {
    /// Where successors ask: a listening, non-blocking Unix socket. `Acceptor` watches it.
    let handle: IOHandle
    /// Copies of the listening sockets. The sockets themselves belong to several shards.
    private var sockets: [IOHandle] = []

    private init(handle: IOHandle) { self.handle = handle }

    deinit {
        for each in sockets + [handle] { close(each) }
    }

    // MARK: The server that has the port

    /// Passes a socket on from now on.
    /// - Throws: `HandoverError` when the process is out of descriptors.
    func offer(_ socket: IOHandle) throws(HandoverError) {
        let copy = parley_duplicate(socket)
        guard copy >= 0 else { throw PortHandover.error("dup") }
        sockets.append(copy)
    }

    /// Passes the sockets to the process at the other end of an accepted connection; nothing if it
    /// is another user's. A message that cannot be sent ends the successor's wait, as the caller
    /// closes the connection.
    func pass(to successor: IOHandle) {
        guard PortHandover.isOwn(successor) else { return }
        var rest = ([handle] + sockets)[...]
        while !rest.isEmpty {
            let part = Array(rest.prefix(Int(PARLEY_MAX_PASSED_DESCRIPTORS)))
            rest = rest.dropFirst(part.count)
            let mark = rest.isEmpty ? PortHandover.lastMessage : PortHandover.messageBeforeOthers
            guard parley_pass_descriptors(successor, mark, part, Int32(part.count)) == 0 else {
                return
            }
        }
    }

    /// The byte of a message.
    private static let lastMessage: UInt8 = 0
    private static let messageBeforeOthers: UInt8 = 1

    // MARK: The successor

    /// How long a server may take to answer. 10 s: it answers in its next tick, so a longer silence
    /// means that it hangs. Its successor must start all the same.
    private static let patience = Duration.seconds(10)
    /// Attempts to find the server of a port, or to become it. Another follows where a server has
    /// ended, or has begun, between two calls.
    private static let maxAttempts = 100
    /// Milliseconds between two attempts.
    private static let pause: Int32 = 10
    /// Successors that may wait for an answer.
    private static let backlog: Int32 = 16

    /// Joins the servers that share a port.
    /// - Parameter name: of the address and the port.
    /// - Returns: where successors ask from now on, and the listening sockets of the server that
    ///   has the port, which are the caller's: none if there is no such server.
    /// - Throws: `HandoverError` when nothing can be handed over.
    static func join(
        _ name: String, patience: Duration = patience
    ) throws(HandoverError) -> (PortHandover, sockets: [IOHandle]) {
        guard let address = UnixAddress(path: [0] + Array("parley/\(name)".utf8)) else {
            throw HandoverError(reason: "the name of the address is too long")
        }
        for attempt in 0..<maxAttempts {
            if attempt > 0 { _ = poll(nil, 0, pause) }
            if let descriptors = try ask(at: address, patience: patience) {
                return (PortHandover(handle: descriptors[0]), Array(descriptors[1...]))
            }
            if let handle = try found(address) { return (PortHandover(handle: handle), []) }
        }
        throw HandoverError(reason: "another server neither begins nor ends")
    }

    /// The descriptors of the server that has the port; nil if there is none, or if it has just
    /// ended.
    private static func ask(
        at address: UnixAddress, patience: Duration
    ) throws(HandoverError) -> [IOHandle]? {
        let connection = try open()
        defer { close(connection) }
        let (seconds, milliseconds) = patience.wholeMilliseconds.quotientAndRemainder(
            dividingBy: 1_000)
        var limit = timeval(tv_sec: Int(seconds), tv_usec: Int(milliseconds) * 1_000)
        setsockopt(
            connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        guard address.withPointer({ connect(connection, $0, $1) }) == 0 else {
            if parley_errno() == ECONNREFUSED { return nil }
            throw error("connect")
        }
        guard isOwn(connection) else {
            throw HandoverError(reason: "another user's process has the name of the port")
        }
        return try receive(from: connection)
    }

    private static func receive(from connection: IOHandle) throws(HandoverError) -> [IOHandle]? {
        var descriptors: [IOHandle] = []
        var mark = messageBeforeOthers
        var part = [IOHandle](repeating: -1, count: Int(PARLEY_MAX_PASSED_DESCRIPTORS))
        while mark == messageBeforeOthers {
            let count = parley_take_descriptors(connection, &mark, &part)
            let code = parley_errno()
            guard count > 0 else {
                for each in descriptors { close(each) }
                if count < 0, code == 0 || code == ECONNRESET { return nil }
                throw count < 0 && code == EAGAIN
                    ? HandoverError(reason: "the server that has the port does not answer")
                    : error("recvmsg")
            }
            descriptors += part[..<Int(count)]
        }
        if let objection = descriptors.dropFirst().compactMap(InheritedSockets.objection).first {
            for each in descriptors { close(each) }
            throw HandoverError(reason: "a socket of the server that has the port \(objection)")
        }
        return descriptors
    }

    /// The Unix socket of the first server of a port; nil if another server is first.
    private static func found(_ address: UnixAddress) throws(HandoverError) -> IOHandle? {
        let handle = try open(Int32(SOCK_NONBLOCK.rawValue))
        guard address.withPointer({ bind(handle, $0, $1) }) == 0, listen(handle, backlog) == 0
        else {
            let code = parley_errno()
            close(handle)
            if code == EADDRINUSE { return nil }
            throw error("bind", code)
        }
        return handle
    }

    private static func open(_ flags: Int32 = 0) throws(HandoverError) -> IOHandle {
        let type = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue) | flags
        let handle = socket(AF_UNIX, type, 0)
        guard handle >= 0 else { throw error("socket") }
        return handle
    }

    private static func isOwn(_ connection: IOHandle) -> Bool {
        parley_peer_user(connection) == Int64(geteuid())
    }

    private static func error(_ call: String, _ code: Int32 = parley_errno()) -> HandoverError {
        HandoverError(reason: "\(call) failed: \(String(cString: strerror(code)))")
    }
}
