// The generator's handshakes: connect, upgrade, Close and the end of the stream, repeatedly, on
// several connections at the same time. Like EchoLoop, it visits them in order and never sleeps.

import CLinux
import Codec

/// Opens and closes connections to one peer.
final class HandshakeLoop {
    /// The stage of a connection.
    private enum Stage {
        /// The request is sent. Next: `closing`.
        case upgrading
        /// Our Close is sent. Next: none, the connection is replaced.
        case closing
    }

    private struct Slot {
        var descriptor: Int32
        var stage = Stage.upgrading
        var received = 0
    }

    /// Connections in progress. 32: enough that a server never waits for the next.
    static let width = 32

    private let target: EchoTarget
    private var slots: [Slot] = []
    private let request: [UInt8]
    private let answerEnd = Array("\r\n\r\n".utf8)
    /// The expected `Sec-WebSocket-Accept`, NUL-terminated.
    private let accept: [CChar]
    /// A Close with code 1000, masked with zeros.
    private let close: [UInt8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8]
    private var buffer = [UInt8](repeating: 0, count: 4096)

    /// Prepares the loop and opens nothing yet.
    init(to target: EchoTarget) {
        self.target = target
        let key = WebSocketHandshake.makeKey()
        request = target.upgradeRequest(key: key)
        accept = Array(WebSocketHandshake.acceptKey(for: key).utf8CString)
    }

    /// Runs one slice.
    /// - Throws: `LoadFailure` when a server refuses, or does not answer.
    func run(warmUp: Int, length: Int) throws(LoadFailure) -> SliceResult {
        var clock = SliceClock(process: target.process, warmUp: warmUp, length: length)
        for _ in 0..<HandshakeLoop.width { slots.append(Slot(descriptor: try begin())) }
        while !clock.isOver {
            for index in slots.indices {
                try advance(index, &clock)
                clock.tick(monotonicNanoseconds())
            }
        }
        for slot in slots { CLinux.close(slot.descriptor) }
        slots.removeAll()
        return clock.result
    }

    private func begin() throws(LoadFailure) -> Int32 {
        let descriptor = try target.connect()
        guard parley_send(descriptor, request, request.count) == request.count else {
            throw .system("send")
        }
        return descriptor
    }

    private func advance(_ index: Int, _ clock: inout SliceClock) throws(LoadFailure) {
        let descriptor = slots[index].descriptor
        switch slots[index].stage {
        case .upgrading:
            try receiveAnswer(index, &clock)
            if target.wire == .raw {
                shutdown(descriptor, Int32(SHUT_WR))
            } else {
                guard parley_send(descriptor, close, close.count) == close.count else {
                    throw .system("send")
                }
            }
            slots[index].stage = .closing
        case .closing:
            while try receive(index, &clock) > 0 {}
            CLinux.close(descriptor)
            clock.add(1)
            slots[index] = Slot(descriptor: try begin())
        }
    }

    /// Receives the head of a 101 with the right key, or from the raw echo as many bytes as were
    /// sent.
    private func receiveAnswer(_ index: Int, _ clock: inout SliceClock) throws(LoadFailure) {
        var answer = ArraySlice<UInt8>()
        repeat {
            let count = try receive(index, &clock)
            guard count > 0 else { throw LoadFailure("the server hung up on a handshake") }
            answer += buffer[..<count]
            if target.wire == .raw, answer.count >= request.count { return }
        } while target.wire == .raw || answer.suffix(4) != answerEnd[...]
        guard answer.starts(with: "HTTP/1.1 101 ".utf8), hasAcceptKey(answer) else {
            throw LoadFailure("the upgrade was refused: \(String(decoding: answer, as: UTF8.self))")
        }
    }

    private func hasAcceptKey(_ answer: ArraySlice<UInt8>) -> Bool {
        let text = answer + [0]
        return text.withUnsafeBufferPointer { text in
            text.withMemoryRebound(to: CChar.self) { strstr($0.baseAddress!, accept) != nil }
        }
    }

    /// - Returns: how many bytes are in the buffer; 0 at the end of the stream.
    private func receive(_ index: Int, _ clock: inout SliceClock) throws(LoadFailure) -> Int {
        let descriptor = slots[index].descriptor
        while true {
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            if count >= 0 { return count }
            // Some servers reset the connection after their Close.
            if parley_errno() == ECONNRESET, slots[index].stage == .closing { return 0 }
            guard parley_errno() == EAGAIN else { throw .system("recv") }
            try clock.waitToRead(descriptor)
        }
    }
}
