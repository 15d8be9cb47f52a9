// The generator's echoes: a closed loop over all connections, in their order. Each sends as soon as
// its answer has come, so the server always has the others' messages before it.
//
// It has to be cheaper than any server: no epoll, one recv and one send per exchange, and it polls
// instead of sleeping, so that no server pays for waking it. It is alone on its core.
//
// Invariant: every connection has exactly one exchange under way during a slice, none before and
// after it.

import CLinux

/// Open connections to one peer.
final class EchoLoop {
    private let descriptors: [Int32]
    private let process: Int32
    private var turn: UInt32 = 0
    private let buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 256 << 10, alignment: 64)

    /// Opens the connections.
    init(to peer: EchoTarget, connections: Int) throws(LoadFailure) {
        descriptors = try peer.open(connections)
        process = peer.process
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
        buffer.deallocate()
    }

    /// Takes a turn.
    /// - Throws: `LoadFailure` when an answer is wrong or does not come.
    func run(
        _ exchange: EchoExchange, warmUp: Int, length: Int
    ) throws(LoadFailure) -> SliceResult {
        var clock = SliceClock(process: process, warmUp: warmUp, length: length)
        for connection in descriptors.indices { try send(exchange, on: connection, turn: turn) }
        while true {
            for connection in descriptors.indices {
                try receive(exchange, on: connection, turn: turn, &clock)
                clock.add(exchange.depth)
                if connection & 7 == 0 { clock.tick(monotonicNanoseconds()) }
                guard !clock.isOver else {
                    try finish(exchange, after: connection, &clock)
                    return clock.result
                }
                try send(exchange, on: connection, turn: turn &+ 1)
            }
            turn &+= 1
        }
    }

    /// Sends on every connection while the server is stopped, so that it finds all messages at
    /// once, however busy the machine is; then receives on every connection.
    /// - Throws: `LoadFailure` when an answer is wrong or does not come.
    func exchangeOnce(_ exchange: EchoExchange) throws(LoadFailure) {
        var clock = SliceClock(process: process, warmUp: 0, length: 0)
        kill(process, SIGSTOP)
        for connection in descriptors.indices { try send(exchange, on: connection, turn: turn) }
        kill(process, SIGCONT)
        for connection in descriptors.indices {
            try receive(exchange, on: connection, turn: turn, &clock)
        }
        turn &+= 1
    }

    /// Takes the answers that are still to come: those before `connection` are a turn ahead.
    private func finish(
        _ exchange: EchoExchange, after connection: Int, _ clock: inout SliceClock
    ) throws(LoadFailure) {
        for other in descriptors.indices where other != connection {
            try receive(
                exchange, on: other, turn: other < connection ? turn &+ 1 : turn, &clock)
        }
        turn &+= 2
    }

    @inline(__always)
    private func send(
        _ exchange: EchoExchange, on connection: Int, turn: UInt32
    ) throws(LoadFailure) {
        exchange.stampRequest(connection: connection, turn: turn)
        let request = exchange.request
        guard
            parley_send(descriptors[connection], request.baseAddress, request.count)
                == request.count
        else { throw .system("send") }
    }

    @inline(__always)
    private func receive(
        _ exchange: EchoExchange, on connection: Int, turn: UInt32, _ clock: inout SliceClock
    ) throws(LoadFailure) {
        exchange.stampReply(connection: connection, turn: turn)
        var received = 0
        while received < exchange.reply.count {
            let count = recv(
                descriptors[connection], buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            guard count > 0 else {
                guard count < 0, parley_errno() == EAGAIN else { throw .system("recv") }
                try clock.waitToRead(descriptors[connection])
                continue
            }
            let bytes = UnsafeRawBufferPointer(start: buffer.baseAddress, count: count)
            received += try check(bytes, against: exchange, at: received, on: connection)
        }
    }

    /// - Returns: how many bytes of the reply these were.
    @inline(__always)
    private func check(
        _ bytes: UnsafeRawBufferPointer, against exchange: EchoExchange, at offset: Int,
        on connection: Int
    ) throws(LoadFailure) -> Int {
        let expected = UnsafeRawBufferPointer(rebasing: exchange.reply[offset...])
        if bytes.count <= expected.count,
            memcmp(bytes.baseAddress!, expected.baseAddress!, bytes.count) == 0
        {
            return bytes.count
        }
        return try checkBehindPing(bytes, against: exchange, at: offset, on: connection)
    }

    /// A server may ask between two messages whether we live.
    @inline(never)
    private func checkBehindPing(
        _ bytes: UnsafeRawBufferPointer, against exchange: EchoExchange, at offset: Int,
        on connection: Int
    ) throws(LoadFailure) -> Int {
        guard exchange.isBoundary(offset), bytes.count >= 2, bytes[0] == 0x89, bytes[1] == 0 else {
            throw LoadFailure("connection \(connection) got an answer that is not its message")
        }
        // An empty pong, masked with zeros.
        let pong: [UInt8] = [0x8A, 0x80, 0, 0, 0, 0]
        _ = parley_send(descriptors[connection], pong, pong.count)
        let rest = UnsafeRawBufferPointer(rebasing: bytes[2...])
        return rest.isEmpty
            ? 0 : try check(rest, against: exchange, at: offset, on: connection)
    }
}
