// Every rule of RFC 6455 broken once: the error, its close code, and that it is reported with the
// first byte that shows it. Includes cases of Autobahn's groups 3, 4, 5, 6 and 7.

import Codec
import Testing

@Suite struct WebSocketErrorTests {
    /// Two frames of an unfinished message.
    private static let begun: [UInt8] = frame(0x01, bytes("be")) + frame(0x00, bytes("gun"))
    private static let limits: WebSocketLimits = {
        var limits = WebSocketLimits()
        limits.maxMessageBytes = 1000
        limits.maxFramesPerMessage = 4
        return limits
    }()

    /// A rule, its close code, and a stream whose last byte breaks it.
    struct Broken: Sendable {
        let rule: WebSocketError
        let code: UInt16
        let stream: [UInt8]

        init(_ rule: WebSocketError, _ code: UInt16, _ parts: [UInt8]...) {
            self.rule = rule
            self.code = code
            stream = Array(parts.joined())
        }
    }

    static let broken = brokenFraming + brokenMessages + brokenCloses

    private static let brokenFraming: [Broken] = [
        Broken(.reservedBitSet, 1002, [0xC1]),
        Broken(.reservedBitSet, 1002, [0xA1]),
        Broken(.reservedBitSet, 1002, [0x91]),
        Broken(.reservedBitSet, 1002, [0xF9]),
        Broken(.reservedOpcode, 1002, [0x83]),
        Broken(.reservedOpcode, 1002, [0x84]),
        Broken(.reservedOpcode, 1002, [0x85]),
        Broken(.reservedOpcode, 1002, [0x86]),
        Broken(.reservedOpcode, 1002, [0x87]),
        Broken(.reservedOpcode, 1002, [0x8B]),
        Broken(.reservedOpcode, 1002, [0x8C]),
        Broken(.reservedOpcode, 1002, [0x8D]),
        Broken(.reservedOpcode, 1002, [0x8E]),
        Broken(.reservedOpcode, 1002, [0x8F]),
        Broken(.reservedOpcode, 1002, begun, [0x83]),
        Broken(.unmaskedClientFrame, 1002, [0x81, 0x05]),
        Broken(.unmaskedClientFrame, 1002, [0x89, 0x00]),
        Broken(.fragmentedControlFrame, 1002, [0x09]),
        Broken(.fragmentedControlFrame, 1002, [0x0A]),
        Broken(.fragmentedControlFrame, 1002, [0x08]),
        Broken(.controlFrameTooLong, 1002, [0x89, 0xFE]),
        Broken(.controlFrameTooLong, 1002, [0x88, 0xFE]),
        Broken(.controlFrameTooLong, 1002, [0x8A, 0xFF]),
        Broken(.nonMinimalLength, 1002, [0x82, 0xFE, 0, 125]),
        Broken(.nonMinimalLength, 1002, [0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]),
        Broken(.nonMinimalLength, 1002, [0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0]),
        Broken(.lengthTopBitSet, 1002, [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        Broken(.lengthTopBitSet, 1002, [0x82, 0xFF], [UInt8](repeating: 0xFF, count: 8)),
    ]

    private static let brokenMessages: [Broken] = [
        Broken(.unexpectedContinuation, 1002, [0x80]),
        Broken(.unexpectedContinuation, 1002, [0x00]),
        Broken(.unexpectedContinuation, 1002, begun, frame(0x80, []), [0x80]),
        Broken(.interruptedMessage, 1002, begun, [0x81]),
        Broken(.interruptedMessage, 1002, begun, [0x02]),
        Broken(.interruptedMessage, 1002, begun, frame(0x89, []), [0x81]),
        // A text fails at its first invalid byte, in whichever frame it is.
        Broken(.invalidUTF8, 1007, frame(0x81, [0x61, 0xFF])),
        Broken(.invalidUTF8, 1007, frame(0x81, [0xCE, 0xBA, 0xED, 0xA0])),
        Broken(.invalidUTF8, 1007, frame(0x81, [0x20, 0xE2, 0x82])),
        Broken(.invalidUTF8, 1007, begun, frame(0x00, [0xF4, 0x90])),
        Broken(.invalidUTF8, 1007, begun, frame(0x00, [0xF4]), frame(0x00, [0x90])),
        Broken(.invalidUTF8, 1007, begun, frame(0x80, [0xC3])),
        Broken(.invalidUTF8, 1007, Array(frame(0x81, [0x20, 0xFF, 0x20, 0x20]).dropLast(2))),
        Broken(
            .invalidUTF8, 1007,
            Array(frame(0x01, [0xF4, 0x90] + [UInt8](repeating: 32, count: 200)).dropLast(200))),
        Broken(.messageTooBig, 1009, frame(0x82, length: [126, 0x03, 0xE9])),
        Broken(
            .messageTooBig, 1009,
            frame(0x01, length: [127, 0x7F, 255, 255, 255, 255, 255, 255, 255])
        ),
        Broken(
            .messageTooBig, 1009, frame(0x02, [UInt8](repeating: 1, count: 600)),
            frame(0x80, length: [126, 0x01, 0x91])),
        Broken(
            .tooManyFrames, 1008, begun, frame(0x00, []), frame(0x00, []), frame(0x80, [])),
    ]

    private static let brokenCloses: [Broken] = {
        let codes: [UInt16] = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535]
        var closes = codes.map { Broken(.invalidCloseCode, 1002, frame(0x88, closePayload($0))) }
        closes.append(Broken(.truncatedCloseCode, 1002, frame(0x88, [0x03])))
        for reason in [[0xCE, 0xBA, 0xFF], [0xE2, 0x82]] as [[UInt8]] {
            closes.append(
                Broken(.invalidCloseReason, 1007, frame(0x88, closePayload(1000) + reason)))
        }
        return closes
    }()

    @Test(arguments: broken)
    func failsWithTheFirstByteThatShowsIt(broken: Broken) {
        let stream = broken.stream
        let outcome = expectChunkInvariant(stream) { receive($0, limits: Self.limits) }
        #expect(outcome.last == .failed(broken.rule))
        #expect(broken.rule.closeCode.rawValue == broken.code)
        let before = receive(stream.map { [$0] }.dropLast(), limits: Self.limits)
        #expect(before == outcome.dropLast(), "The error must not come before the last byte.")
    }

    @Test(arguments: broken)
    func whatFollowsAnErrorIsDiscarded(broken: Broken) {
        var connection = WebSocketConnection(role: .server, limits: Self.limits)
        let ping = frame(0x89, [])
        let outcome = feed(&connection, ping + broken.stream + ping)
        #expect(outcome.first == .ping([]))
        #expect(outcome.last == .failed(broken.rule))
        #expect(feed(&connection, ping) == [])
        let (held, isOpen, wasClosed) = (
            connection.heldBytes, connection.isOpen, connection.isClosed
        )
        #expect(held == 0 && !isOpen && !wasClosed)
        let closing = written { connection.close(broken.rule.closeCode, into: &$0) }
        #expect(closing == frame(0x88, closePayload(broken.code), mask: nil))
        let isClosed = connection.isClosed
        #expect(isClosed)
    }

    @Test func aServerMustNotMask() {
        let outcome = expectChunkInvariant(frame(0x81, bytes("x"))) { receive($0, role: .client) }
        #expect(outcome == [.failed(.maskedServerFrame)])
        #expect(WebSocketError.maskedServerFrame.closeCode == .protocolError)
    }

    @Test func everyRuleHasATest() {
        // CompressedMessageTests have the rules of compressed messages.
        let tested = Set(Self.broken.map(\.rule)).union([
            .maskedServerFrame, .invalidDeflate, .inflationRatioTooHigh, .tooManyBlocks,
        ])
        #expect(tested == Set(WebSocketError.allCases))
    }

    @Test func limitsAreExact() {
        let most = [UInt8](repeating: 1, count: 1000)
        #expect(receive([frame(0x82, most)], limits: Self.limits) == [.binary(most)])
        let pieces = frame(0x02, most.dropLast()) + frame(0x00, []) + frame(0x00, [1])
        #expect(
            expectChunkInvariant(pieces + frame(0x80, [])) { receive($0, limits: Self.limits) }
                == [.binary(most)])
    }

    /// Autobahn 9.3 and 9.4 send 4 MiB in frames of 64 bytes.
    @Test func manyFramesThatCarrySomethingAreAccepted() {
        var limits = Self.limits
        limits.tinyFragmentBytes = 16
        let piece = [UInt8](repeating: 1, count: 16)
        let pieces = (0..<20).flatMap { frame($0 == 0 ? 0x02 : 0x00, piece) }
        let whole = (0..<20).flatMap { _ in piece }
        #expect(receive([pieces + frame(0x80, piece)], limits: limits) == [.binary(whole + piece)])
        // With one more empty frame the average is too low.
        #expect(
            receive([pieces + frame(0x80, [])], limits: limits) == [.failed(.tooManyFrames)])
        // The bytes of the first frames count towards the average, however they are distributed.
        let large = frame(0x02, [UInt8](repeating: 1, count: 160))
        let tiny = (0..<8).flatMap { _ in frame(0x00, []) }
        #expect(receive([large + tiny + frame(0x80, [])], limits: limits).count == 1)
        #expect(
            receive([large + tiny + frame(0x00, []) + frame(0x80, [])], limits: limits)
                == [.failed(.tooManyFrames)])
    }

    @Test func aHugeAnnouncedLengthReservesNoMemory() {
        // 14 bytes that announce 16 MiB must not make the server hold 16 MiB.
        var connection = WebSocketConnection(role: .server)
        let header = frame(0x82, length: [127, 0, 0, 0, 0, 1, 0, 0, 0])
        #expect(feed(&connection, header + [1, 2, 3]) == [])
        let held = connection.heldBytes
        #expect(held <= 1024)
    }
}
