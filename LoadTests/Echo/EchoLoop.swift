// The generator's echoes: a closed loop over all connections in order. Each connection sends again
// as soon as its answer has arrived, so the server always has messages of the others to handle.
//
// The generator must use less processor time than any server: no epoll, and one recv and one send
// for each exchange. It polls instead of sleeping, so that no server spends time on waking it. It
// has a core of its own.
//
// Invariant: every connection has exactly one exchange in flight during a slice, and none before or
// after it.

import CLinux

/// Open connections to one peer.
final class EchoLoop {
    private let descriptors: [Int32]
    private let process: Int32
    private var lap: UInt32 = 0
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

    /// Runs one slice.
    /// - Throws: `LoadFailure` when an answer is wrong or does not come.
    func run(
        _ exchange: EchoExchange, warmUp: Int, length: Int
    ) throws(LoadFailure) -> SliceResult {
        var clock = SliceClock(process: process, warmUp: warmUp, length: length)
        for connection in descriptors.indices { try send(exchange, on: connection, lap: lap) }
        while true {
            for connection in descriptors.indices {
                try receive(exchange, on: connection, lap: lap, &clock)
                clock.add(exchange.depth)
                if connection & 7 == 0 { clock.tick(monotonicNanoseconds()) }
                guard !clock.isOver else {
                    try finish(exchange, after: connection, &clock)
                    return clock.result
                }
                try send(exchange, on: connection, lap: lap &+ 1)
            }
            lap &+= 1
        }
    }

    /// Sends on every connection while the server is stopped, then receives on every connection.
    /// The server thus finds all messages at once, however busy the machine is.
    /// - Throws: `LoadFailure` when an answer is wrong or does not come.
    func exchangeOnce(_ exchange: EchoExchange) throws(LoadFailure) {
        var clock = SliceClock(process: process, warmUp: 0, length: 0)
        kill(process, SIGSTOP)
        for connection in descriptors.indices { try send(exchange, on: connection, lap: lap) }
        kill(process, SIGCONT)
        for connection in descriptors.indices {
            try receive(exchange, on: connection, lap: lap, &clock)
        }
        lap &+= 1
    }

    /// Receives the outstanding answers. Connections before `connection` are a lap ahead.
    private func finish(
        _ exchange: EchoExchange, after connection: Int, _ clock: inout SliceClock
    ) throws(LoadFailure) {
        for other in descriptors.indices where other != connection {
            try receive(
                exchange, on: other, lap: other < connection ? lap &+ 1 : lap, &clock)
        }
        lap &+= 2
    }

    @inline(__always)
    private func send(
        _ exchange: EchoExchange, on connection: Int, lap: UInt32
    ) throws(LoadFailure) {
        exchange.stampRequest(connection: connection, lap: lap)
        let request = exchange.request
        guard
            parley_send(descriptors[connection], request.baseAddress, request.count)
                == request.count
        else { throw .system("send") }
    }

    @inline(__always)
    private func receive(
        _ exchange: EchoExchange, on connection: Int, lap: UInt32, _ clock: inout SliceClock
    ) throws(LoadFailure) {
        exchange.stampReply(connection: connection, lap: lap)
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

    /// - Returns: the number of bytes that were checked.
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

    /// Handles a ping, which a server may send between two messages.
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
