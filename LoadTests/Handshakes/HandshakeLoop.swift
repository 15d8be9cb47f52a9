// The generator's handshakes: connect, TLS where the peer has it, upgrade, Close and the end of the
// stream, repeatedly, on several connections at the same time. Like EchoLoop, it visits them in order
// and never sleeps.

import CLinux
import Codec

/// Opens and closes connections to one peer.
final class HandshakeLoop {
    /// The protection of its connections.
    enum Security {
        /// Plain TCP.
        case none
        /// TLS 1.3, every handshake with keys and certificate.
        case full
        /// TLS 1.3, every handshake with the ticket of the last connection in its place.
        case resumed
    }

    /// The stage of a connection.
    private enum Stage {
        /// The ClientHello is sent. Next: `upgrading`.
        case shaking
        /// The request is sent. Next: `closing`.
        case upgrading
        /// Our Close is sent. Next: none, the connection is replaced.
        case closing
    }

    private struct Slot {
        var descriptor: Int32
        var tls: LoadTLS?
        var stage: Stage
        var began: Int64
    }

    /// Visits of each place until it has a ticket: three for each connection.
    private static let maxTicketVisits = 30
    /// Connections in progress. 32: enough that a server never waits for the next.
    static let width = 32

    private let target: EchoTarget
    private let security: Security
    private let context: LoadTLSContext?
    private var slots: [Slot] = []
    /// The last session of each place; nil: none yet, or handshakes are full.
    private var sessions = [LoadTLSSession?](repeating: nil, count: HandshakeLoop.width)
    private var latencies = LatencyHistogram()
    private let request: [UInt8]
    private let answerEnd = Array("\r\n\r\n".utf8)
    /// The expected `Sec-WebSocket-Accept`, NUL-terminated.
    private let accept: [CChar]
    /// A Close with code 1000, masked with zeros.
    private let close: [UInt8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8]
    private var buffer = [UInt8](repeating: 0, count: 4096)

    /// Prepares the loop and opens nothing yet.
    /// - Throws: `LoadFailure` when OpenSSL cannot be set up.
    init(to target: EchoTarget, _ security: Security = .none) throws(LoadFailure) {
        self.target = target
        self.security = security
        context = security == .none ? nil : try LoadTLSContext(isModern: true)
        let key = WebSocketHandshake.makeKey()
        request = target.upgradeRequest(key: key)
        accept = Array(WebSocketHandshake.acceptKey(for: key).utf8CString)
    }

    /// Runs one slice.
    /// - Throws: `LoadFailure` when a server refuses, does not answer, or makes another kind of TLS
    ///   handshake in the measured part than was asked for.
    func run(warmUp: Int, length: Int) throws(LoadFailure) -> SliceResult {
        for index in 0..<HandshakeLoop.width { slots.append(try begin(index)) }
        if security == .resumed { try takeTickets() }
        var clock = SliceClock(process: target.process, warmUp: warmUp, length: length)
        latencies.reset()
        while !clock.isOver {
            for index in slots.indices {
                try advance(index, &clock)
                clock.tick(monotonicNanoseconds())
            }
        }
        for slot in slots { CLinux.close(slot.descriptor) }
        slots.removeAll()
        var result = clock.result
        result.p50 = latencies.milliseconds(atPercentile: 50)
        result.p99 = latencies.milliseconds(atPercentile: 99)
        return result
    }

    /// Makes connections until each place has a session to resume.
    private func takeTickets() throws(LoadFailure) {
        var clock = SliceClock(process: target.process, warmUp: 3_600_000, length: 0)
        for _ in 0..<Self.maxTicketVisits {
            guard sessions.contains(where: { $0 == nil }) else { return }
            for index in slots.indices { try advance(index, &clock) }
        }
        throw LoadFailure("the server gives no session tickets")
    }

    private func begin(_ index: Int) throws(LoadFailure) -> Slot {
        let began = monotonicNanoseconds()
        let descriptor = try target.connect()
        guard let context else {
            let slot = Slot(descriptor: descriptor, stage: .upgrading, began: began)
            try send(request, on: slot)
            return slot
        }
        // Only OpenSSL's reads have to return: what is sent fits into an empty socket.
        guard parley_own_descriptor(descriptor) == 0 else { throw .system("fcntl") }
        let tls = try LoadTLS(descriptor, context)
        if let session = sessions[index] { tls.resume(session) }
        // The answer may be there at once, where the generator was descheduled.
        if case .failed(let reason) = tls.shakeHands() { throw LoadFailure(reason) }
        return Slot(descriptor: descriptor, tls: tls, stage: .shaking, began: began)
    }

    private func advance(_ index: Int, _ clock: inout SliceClock) throws(LoadFailure) {
        switch slots[index].stage {
        case .shaking:
            try shakeHands(index, &clock)
            try send(request, on: slots[index])
            slots[index].stage = .upgrading
        case .upgrading:
            try receiveAnswer(index, &clock)
            if clock.isCounting {
                latencies.record(nanoseconds: monotonicNanoseconds() - slots[index].began)
            }
            if security == .resumed { sessions[index] = slots[index].tls?.session }
            switch target.wire {
            case .raw: shutdown(slots[index].descriptor, Int32(SHUT_WR))
            case .webSocket: try send(close, on: slots[index])
            case .http: break
            }
            slots[index].stage = .closing
        case .closing:
            while try receive(index, &clock) > 0 {}
            CLinux.close(slots[index].descriptor)
            clock.add(1)
            slots[index] = try begin(index)
        }
    }

    private func shakeHands(_ index: Int, _ clock: inout SliceClock) throws(LoadFailure) {
        guard let tls = slots[index].tls else { return }
        while true {
            switch tls.shakeHands() {
            case .done:
                guard clock.isCounting, tls.isResumed != (security == .resumed) else { return }
                throw LoadFailure("a handshake was \(tls.isResumed ? "" : "not ")resumed")
            case .waits: try clock.waitToRead(slots[index].descriptor)
            case .failed(let reason): throw LoadFailure(reason)
            }
        }
    }

    private func send(_ bytes: [UInt8], on slot: Slot) throws(LoadFailure) {
        let count =
            slot.tls.map { tls in bytes.withUnsafeBytes { tls.write($0).count } }
            ?? parley_send(slot.descriptor, bytes, bytes.count)
        guard count == bytes.count else { throw .system("send") }
    }

    /// Receives the head of a 101 with the right key, of a 200 from a peer that only answers, or from
    /// the raw echo as many bytes as were sent.
    private func receiveAnswer(_ index: Int, _ clock: inout SliceClock) throws(LoadFailure) {
        var answer = ArraySlice<UInt8>()
        var isWhole = false
        while !isWhole {
            let count = try receive(index, &clock)
            guard count > 0 else { throw LoadFailure("the server hung up on a handshake") }
            answer += buffer[..<count]
            switch target.wire {
            case .raw: isWhole = answer.count >= request.count
            case .webSocket: isWhole = answer.suffix(4) == answerEnd[...]
            case .http: isWhole = answer.firstRange(of: answerEnd) != nil
            }
        }
        let isRight =
            switch target.wire {
            case .raw: true
            case .webSocket: answer.starts(with: "HTTP/1.1 101 ".utf8) && hasAcceptKey(answer)
            case .http: answer.starts(with: "HTTP/1.1 200 ".utf8)
            }
        guard isRight else {
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
        let slot = slots[index]
        while true {
            if let tls = slot.tls {
                let outcome = buffer.withUnsafeMutableBytes { tls.read(into: $0) }
                if let count = outcome.count { return count }
                if case .failed(let reason) = outcome {
                    // Some servers end the stream without close_notify.
                    if slot.stage == .closing { return 0 }
                    throw LoadFailure(reason)
                }
            } else {
                let count = recv(slot.descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
                if count >= 0 { return count }
                // Some servers reset the connection after their Close.
                if parley_errno() == ECONNRESET, slot.stage == .closing { return 0 }
                guard parley_errno() == EAGAIN else { throw .system("recv") }
            }
            try clock.waitToRead(slot.descriptor)
        }
    }
}
