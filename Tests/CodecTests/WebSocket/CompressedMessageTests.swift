// Compressed messages: the examples of RFC 7692 byte by byte, contexts, where RSV1 is allowed,
// chunk invariance, and the limits, which apply while a message is inflated.

import Codec
import TestMaterial
import Testing

@Suite struct CompressedMessageTests {
    /// A message compressed like the server does.
    private static func deflated(
        _ message: [UInt8], with deflater: MessageDeflater? = nil
    ) throws -> [UInt8] {
        let deflater = deflater ?? MessageDeflater(windowBits: 15, keepsContext: false)
        let output = CompressionBuffer()
        let isDone = message.withUnsafeBytes {
            deflater.deflate($0, atMost: message.count + 100, into: output)
        }
        try #require(isDone)
        return Array(output.bytes)
    }

    /// Text that compresses about as well as JSON.
    private static func prose(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        let words = ["delta ", "response ", "item ", "{\"type\":", "\"event_id\":", "äöü ", "42, "]
        var generator = SeededGenerator(seed: seed)
        var text: [UInt8] = []
        while text.count < count { text += words.randomElement(using: &generator)!.utf8 }
        return text
    }

    // MARK: RFC 7692 §7.2.3

    static let hello: [UInt8] = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]

    @Test(
        arguments: [
            ("one block", [hello]),
            (
                "a stored block",
                [[0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00]]
            ),
            ("a final block", [[0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]]),
            ("a final block alone", [[0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]]),
            (
                "two blocks",
                [[0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00]]
            ),
            ("two frames", [[0xF2, 0x48, 0xCD], [0xC9, 0xC9, 0x07, 0x00]]),
            ("frames of which some are empty", [[], hello, [], []]),
        ] as [(String, [[UInt8]])])
    func inflatesTheExamplesOfTheStandard(name: String, payloads: [[UInt8]]) {
        var stream: [UInt8] = []
        for (index, payload) in payloads.enumerated() {
            let isLast = index == payloads.count - 1
            stream += frame((isLast ? 0x80 : 0) | (index == 0 ? 0x41 : 0), payload)
        }
        #expect(expectChunkInvariant(stream) { receiveCompressed($0) } == [.text("Hello")])
    }

    @Test func compressesTheExampleOfTheStandard() throws {
        #expect(try Self.deflated(bytes("Hello")) == Self.hello)
        // With a context the second message is shorter.
        let deflater = MessageDeflater(windowBits: 15, keepsContext: true)
        #expect(try Self.deflated(bytes("Hello"), with: deflater) == Self.hello)
        #expect(
            try Self.deflated(bytes("Hello"), with: deflater) == [0xF2, 0x00, 0x11, 0x00, 0x00])
    }

    @Test func aContextIsKeptOnlyWhereItWasAgreedOn() {
        let second = frame(0xC1, [0xF2, 0x00, 0x11, 0x00, 0x00])
        let stream = frame(0xC1, Self.hello) + second
        let kept = expectChunkInvariant(stream) {
            receiveCompressed($0, inflation: Inflation(keepsContext: true))
        }
        #expect(kept == [.text("Hello"), .text("Hello")])
        let forgotten = expectChunkInvariant(stream) { receiveCompressed($0) }
        #expect(forgotten == [.text("Hello"), .failed(.invalidDeflate)])
    }

    @Test func aContextOutlivesAFinalBlock() {
        let final: [UInt8] = [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]
        let stream = frame(0xC1, final) + frame(0xC1, [0xF2, 0x00, 0x11, 0x00, 0x00])
        let outcome = receiveCompressed([stream], inflation: Inflation(keepsContext: true))
        #expect(outcome == [.text("Hello"), .text("Hello")])
    }

    @Test func anEmptyMessageIsOneEmptyBlock() throws {
        for payload in [[0x00], [0x02, 0x00], [0x03, 0x00]] as [[UInt8]] {
            let outcome = receiveCompressed([frame(0xC1, payload) + frame(0xC2, payload)])
            #expect(outcome == [.text(""), .binary([])])
        }
        let deflater = MessageDeflater(windowBits: 15, keepsContext: true)
        for _ in 0..<3 { #expect(try Self.deflated([], with: deflater) == [0x00]) }
    }

    // MARK: Where RSV1 belongs (RFC 7692 §6)

    @Test(
        arguments: [
            [0xC8], [0xC9], [0xCA], [0xC0], [0x40], [0xA1], [0x91], [0xE1], [0xD2], [0xF2], [0xC3],
        ] as [[UInt8]])
    func reservedBitsElsewhereAreErrors(first: [UInt8]) {
        #expect(
            expectChunkInvariant(first) { receiveCompressed($0) } == [.failed(.reservedBitSet)])
        // Also inside a message, compressed or not, where a continuation is expected.
        for begun in [frame(0x41, [0xF2]), frame(0x01, [0x61])] {
            let outcome = receiveCompressed([begun + first])
            #expect(outcome == [.failed(.reservedBitSet)])
        }
    }

    @Test func aNewMessageMustNotInterruptACompressedOne() {
        let outcome = receiveCompressed([frame(0x41, [0xF2]) + [0xC1]])
        #expect(outcome == [.failed(.interruptedMessage)])
    }

    @Test func withoutAnAgreementRSV1IsAnError() {
        #expect(receive([[0xC1]]) == [.failed(.reservedBitSet)])
        #expect(receive([[0x41]]) == [.failed(.reservedBitSet)])
    }

    @Test func plainMessagesMixWithCompressedOnes() throws {
        let text = Self.prose(3000)
        let packed = try Self.deflated(text)
        let half = packed.count / 2
        let stream =
            frame(0x81, bytes("plain")) + frame(0xC2, packed) + frame(0x41, Array(packed[..<half]))
            + frame(0x89, [1, 2, 3]) + frame(0x00, []) + frame(0x8A, [])
            + frame(0x80, Array(packed[half...])) + frame(0x01, [0xC3]) + frame(0x80, [0xA4])
        let outcome = expectChunkInvariant(stream) { receiveCompressed($0) }
        #expect(
            outcome == [
                .text("plain"), .binary(text), .ping([1, 2, 3]), .pong([]),
                .text(String(decoding: text, as: UTF8.self)), .text("ä"),
            ])
    }

    @Test func theOwnerMayLeaveAMessageCompressed() {
        var connection = WebSocketConnection(role: .server, takesCompressed: true)
        let outcome = feed(&connection, frame(0xC1, Self.hello))
        #expect(outcome == [.compressed(isText: true, Self.hello)])
    }

    // MARK: Invalid data

    @Test(
        arguments: [
            // A block of the reserved type; a distance before the start; an invalid code.
            [0x06], [0x02, 0x06, 0x00], [0xFF, 0xFF, 0xFF, 0xFF], [0x04, 0xFF, 0xFF, 0xFF, 0xFF],
            // Cut off within a code, within a stored block, and before the end of the tail.
            [0xF2, 0x48, 0xCD], [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48], Array(hello.dropLast(2)), [],
            // What follows a final block must be another block.
            [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x06],
        ] as [[UInt8]])
    func corruptDataIsAnError(payload: [UInt8]) {
        for split in [frame(0xC2, payload), frame(0x42, payload) + frame(0x80, [])] {
            let outcome = expectChunkInvariant(split) { receiveCompressed($0) }
            #expect(outcome == [.failed(.invalidDeflate)])
        }
        #expect(WebSocketError.invalidDeflate.closeCode == .invalidPayload)
    }

    /// Any bytes give messages or an error. The inflater stays usable for other messages.
    @Test func anyBytesGiveMessagesOrAnError() {
        var generator = SeededGenerator(seed: 7)
        let inflation = Inflation()
        for round in 0..<2000 {
            let payload = (0..<Int.random(in: 0...60, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            let outcome = receiveCompressed([frame(0xC2, payload)], inflation: inflation)
            #expect(outcome.count == 1, "round \(round)")
            #expect(
                receiveCompressed([frame(0xC1, Self.hello)], inflation: inflation)
                    == [.text("Hello")])
        }
    }

    @Test func aFailedMessageEndsTheConnection() {
        var connection = WebSocketConnection(role: .server, takesCompressed: true)
        let inflation = Inflation()
        #expect(
            feed(&connection, frame(0xC1, [0x06]) + frame(0x89, []), inflation: inflation)
                == [.failed(.invalidDeflate)])
        #expect(feed(&connection, frame(0x81, bytes("late")), inflation: inflation) == [])
        let closing = written { connection.close(.invalidPayload, into: &$0) }
        #expect(closing == frame(0x88, closePayload(1007), mask: nil))
        let isClosed = connection.isClosed
        #expect(isClosed)
    }

    @Test func inflatedTextMustBeUTF8() throws {
        for text in [[0x61, 0xFF], [0x20, 0xE2, 0x82], [0xED, 0xA0, 0x80]] as [[UInt8]] {
            let packed = try Self.deflated(text)
            let stream = frame(0xC1, packed)
            let outcome = expectChunkInvariant(stream) { receiveCompressed($0) }
            #expect(outcome == [.failed(.invalidUTF8)])
            #expect(receiveCompressed([frame(0xC2, packed)]) == [.binary(text)])
        }
        // Split across the pieces that are inflated one by one.
        let long = Array(String(repeating: "a🎧é", count: 20_000).utf8)
        let outcome = receiveCompressed([frame(0xC1, try Self.deflated(long))])
        #expect(outcome == [.text(String(decoding: long, as: UTF8.self))])
    }

    // MARK: Limits

    private static func bomb(_ count: Int) throws -> [UInt8] {
        try deflated([UInt8](repeating: 0, count: count))
    }

    @Test func sizeIsLimitedToTheByteWhileInflating() throws {
        let message = Self.prose(100_000)
        let stream = frame(0xC2, try Self.deflated(message))
        var inflation = Inflation()
        inflation.limits.maxMessageBytes = message.count
        #expect(receiveCompressed([stream], inflation: inflation) == [.binary(message)])
        #expect(inflation.output.capacity <= message.count)
        inflation.limits.maxMessageBytes = message.count - 1
        #expect(receiveCompressed([stream], inflation: inflation) == [.failed(.messageTooBig)])
        #expect(WebSocketError.messageTooBig.closeCode == .messageTooBig)
    }

    /// 64 MiB of zeros in 65 kB: no more is allocated than a message may have.
    @Test func aBombEndsAtTheLimit() throws {
        let bomb = try Self.bomb(64 << 20)
        #expect(bomb.count < 300_000)
        var inflation = Inflation()
        inflation.limits.maxRatio = 10_000
        inflation.limits.maxMessageBytes = 1 << 20
        #expect(
            receiveCompressed([frame(0xC1, bomb)], inflation: inflation)
                == [.failed(.messageTooBig)])
        #expect(inflation.output.capacity == 1 << 20)
        // The limit on the ratio ends it much earlier.
        inflation = Inflation()
        inflation.limits.maxRatio = 1
        inflation.limits.freeBytes = 0
        #expect(
            receiveCompressed([frame(0xC1, bomb)], inflation: inflation)
                == [.failed(.inflationRatioTooHigh)])
        #expect(inflation.output.capacity == bomb.count)
        #expect(WebSocketError.inflationRatioTooHigh.closeCode == .messageTooBig)
    }

    /// zlib builds two tables for each block, even for an empty one.
    @Test func blocksAreCounted() {
        // Stored blocks of one byte each (RFC 1951 §3.2.4); the message's end is one more block.
        func message(_ blocks: Int) -> [UInt8] {
            let block: [UInt8] = [0, 1, 0, 0xFE, 0xFF, 7]
            return frame(0xC2, Array(repeatElement(block, count: blocks).joined()) + [0])
        }
        var inflation = Inflation()
        inflation.limits.freeBlocks = 10
        inflation.limits.bytesPerBlock = 4
        let most = [UInt8](repeating: 7, count: 12)
        #expect(receiveCompressed([message(12)], inflation: inflation) == [.binary(most)])
        inflation.limits.bytesPerBlock = 5
        #expect(
            receiveCompressed([message(12)], inflation: inflation) == [.failed(.tooManyBlocks)])
        #expect(WebSocketError.tooManyBlocks.closeCode == .policyViolation)
    }

    /// A sender that flushes with each small frame is not an attacker.
    @Test func theDefaultLimitsAllowAFlushPerFrame() {
        let count = InflationLimits().freeBlocks - 1
        let block: [UInt8] = [0, 1, 0, 0xFE, 0xFF, 7]
        let stream = Array(repeatElement(block, count: count).joined()) + [0]
        #expect(
            receiveCompressed([frame(0xC2, stream)], inflation: Inflation())
                == [.binary([UInt8](repeating: 7, count: count))])
    }

    @Test func smallMessagesMayHaveAnyRatio() throws {
        var inflation = Inflation()
        inflation.limits.maxRatio = 10
        inflation.limits.freeBytes = 50_000
        let fits = frame(0xC2, try Self.bomb(50_000))
        let zeros = [UInt8](repeating: 0, count: 50_000)
        #expect(receiveCompressed([fits], inflation: inflation) == [.binary(zeros)])
        let exceeds = frame(0xC2, try Self.bomb(50_001))
        #expect(
            receiveCompressed([exceeds], inflation: inflation)
                == [.failed(.inflationRatioTooHigh)])
        #expect(inflation.output.capacity <= 50_000)
    }

    @Test func compressedBytesAreLimitedToo() throws {
        var limits = WebSocketLimits()
        limits.maxMessageBytes = 1000
        limits.maxFramesPerMessage = 4
        #expect(
            receiveCompressed([frame(0xC2, length: [126, 0x03, 0xE9])], limits: limits)
                == [.failed(.messageTooBig)])
        let flood = frame(0x41, [1]) + (0..<4).flatMap { _ in frame(0x00, []) }
        #expect(receiveCompressed([flood], limits: limits) == [.failed(.tooManyFrames)])
    }

    @Test func memoryThatGrewIsGivenBack() throws {
        let inflation = Inflation()
        _ = receiveCompressed([frame(0xC2, try Self.bomb(200_000))], inflation: inflation)
        #expect(inflation.output.capacity >= 200_000)
        inflation.output.removeAll(keepingCapacity: 1 << 20)
        #expect(inflation.output.capacity >= 200_000)
        inflation.output.removeAll(keepingCapacity: 4096)
        #expect(inflation.output.capacity == 0)
    }

    // MARK: The compressor

    @Test(arguments: 9...15)
    func windowsAreNeverLargerThanAgreed(bits: Int) throws {
        let deflater = MessageDeflater(windowBits: bits, keepsContext: true)
        var connection = WebSocketConnection(role: .server, takesCompressed: true)
        let inflation = Inflation(windowBits: bits, keepsContext: true)
        for round in 0..<20 {
            let message = Self.prose(3000, seed: UInt64(round % 3))
            let packed = try Self.deflated(message, with: deflater)
            #expect(
                feed(&connection, frame(0xC2, packed), inflation: inflation) == [.binary(message)])
        }
    }

    /// An abandoned message is removed from the context: later messages do not refer to it.
    @Test func messagesThatDoNotShrinkAreAbandoned() throws {
        var generator = SeededGenerator(seed: 3)
        let noise = (0..<5000).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let deflater = MessageDeflater(windowBits: 15, keepsContext: true)
        let inflation = Inflation(keepsContext: true)
        var connection = WebSocketConnection(role: .server, takesCompressed: true)
        let output = CompressionBuffer()
        for seed in 0..<5 {
            let isDone = noise.withUnsafeBytes {
                deflater.deflate($0, atMost: noise.count - 1, into: output)
            }
            #expect(!isDone && output.count == 0)
            let message = Self.prose(500, seed: UInt64(seed))
            let packed = try Self.deflated(message, with: deflater)
            #expect(
                feed(&connection, frame(0xC2, packed), inflation: inflation) == [.binary(message)])
        }
        let empty = deflater.deflate(
            UnsafeRawBufferPointer(start: nil, count: 0), atMost: 0, into: output)
        #expect(!empty)
    }

    @Test func memoryIsTakenWithTheFirstMessage() throws {
        let deflater = MessageDeflater(windowBits: 12, keepsContext: true)
        let inflater = MessageInflater(windowBits: 12, keepsContext: true)
        #expect(deflater.heldBytes == 0 && inflater.heldBytes == 0)
        _ = try Self.deflated([1, 2, 3], with: deflater)
        #expect(deflater.heldBytes == MessageDeflater.heldBytes(windowBits: 12))
        #expect((35_000...45_000).contains(deflater.heldBytes))
    }
}
