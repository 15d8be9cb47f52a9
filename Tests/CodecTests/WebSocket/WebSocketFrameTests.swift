// Writing frames: the examples of RFC 6455 §5.7, every length form at its limits, masks, Close.

import Codec
import TestMaterial
import Testing

@Suite struct WebSocketFrameTests {
    private func frameBytes(
        _ opcode: WebSocketOpcode, _ payload: [UInt8], isFinal: Bool = true, mask: UInt32? = nil
    ) -> [UInt8] {
        written { writer in
            payload.withUnsafeBytes {
                WebSocketFrame.write(
                    opcode, payload: $0, isFinal: isFinal, mask: mask, into: &writer)
            }
        }
    }

    @Test func writesTheExamplesOfTheStandard() {
        let hello: [UInt8] = [0x48, 0x65, 0x6C, 0x6C, 0x6F]
        #expect(frameBytes(.text, hello) == [0x81, 0x05] + hello)
        #expect(
            frameBytes(.text, hello, mask: 0x3D21_FA37)
                == [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
        #expect(frameBytes(.text, bytes("Hel"), isFinal: false) == [0x01, 0x03] + bytes("Hel"))
        #expect(frameBytes(.continuation, bytes("lo")) == [0x80, 0x02] + bytes("lo"))
        #expect(frameBytes(.ping, hello) == [0x89, 0x05] + hello)
        #expect(
            frameBytes(.pong, hello, mask: 0x3D21_FA37)
                == [0x8A, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58])
    }

    @Test(
        arguments: [
            (0, [0x82, 0]), (125, [0x82, 125]), (126, [0x82, 126, 0, 126]),
            (0xFFFF, [0x82, 126, 0xFF, 0xFF]), (0x10000, [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] as [(Int, [UInt8])])
    func usesTheShortestLength(payloadBytes: Int, header: [UInt8]) {
        let payload = [UInt8](repeating: 7, count: payloadBytes)
        #expect(frameBytes(.binary, payload) == header + payload)
        #expect(
            WebSocketFrame.headerSize(payloadBytes: payloadBytes, masked: false) == header.count)
        #expect(
            WebSocketFrame.headerSize(payloadBytes: payloadBytes, masked: true) == header.count + 4)
    }

    @Test func masksEveryLengthAndLeavesNothingOut() {
        var generator = SeededGenerator(seed: 5)
        for count in Array(0...100) + [1000, 70_000] {
            let payload = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(frameBytes(.binary, payload, mask: 0x3D21_FA37) == frame(0x82, payload))
        }
    }

    @Test func writesClose() {
        #expect(written { WebSocketFrame.writeClose(nil, into: &$0) } == [0x88, 0])
        #expect(
            written { WebSocketFrame.writeClose(.goingAway, reason: "bye", into: &$0) }
                == frame(0x88, closePayload(1001, "bye"), mask: nil))
        #expect(
            written {
                WebSocketFrame.writeClose(
                    .normalClosure, reason: "x", mask: 0x3D21_FA37, into: &$0)
            } == frame(0x88, closePayload(1000, "x")))
    }

    @Test func cutsALongReasonAtTheEndOfACharacter() {
        let fits = String(repeating: "a", count: 123)
        let tooLong = String(repeating: "a", count: 121) + "äöü"
        func payload(_ reason: String) -> [UInt8] {
            written { WebSocketFrame.writeClose(.normalClosure, reason: reason, into: &$0) }
        }
        #expect(payload(fits) == frame(0x88, closePayload(1000, fits), mask: nil))
        let cut = String(repeating: "a", count: 121) + "ä"
        #expect(payload(tooLong) == frame(0x88, closePayload(1000, cut), mask: nil))
        let uneven = "a" + String(repeating: "🎧", count: 40)
        #expect(
            payload(uneven)
                == frame(
                    0x88, closePayload(1000, "a" + String(repeating: "🎧", count: 30)), mask: nil))
    }

    @Test func refusesToWriteForbiddenFrames() async {
        await #expect(processExitsWith: .failure) {
            var writer = ByteWriter(capacity: 16)
            WebSocketFrame.writeClose(WebSocketCloseCode(rawValue: 1005), into: &writer)
        }
        await #expect(processExitsWith: .failure) {
            var writer = ByteWriter(capacity: 16)
            WebSocketFrame.writeHeader(.ping, payloadBytes: 126, into: &writer)
        }
        await #expect(processExitsWith: .failure) {
            var writer = ByteWriter(capacity: 16)
            WebSocketFrame.writeHeader(.close, payloadBytes: 0, isFinal: false, into: &writer)
        }
    }
}
