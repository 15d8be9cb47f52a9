// The headers of audio in binary messages: written and read, and messages that are none.

import Codec
import Testing

@Suite struct AudioMessagesTests {
    private let reply: [UInt8] =
        [1, 3, 2, 0, 0x80, 0xBB, 0, 0] + Array("item_1".utf8) + [UInt8](repeating: 0, count: 10)
        + [7, 8]

    private func input(
        _ message: [UInt8], isNumbered: Bool
    ) throws -> (number: UInt16?, payload: [UInt8]) {
        try message.withUnsafeBytes { bytes in
            let read = try InputAudioMessage(bytes, isNumbered: isNumbered)
            return (read.number, Array(read.payload))
        }
    }

    @Test func theHeaderOfAReplyIsWrittenAndRead() throws {
        let message = try #require(OutputAudioMessage(reply, format: .opus))
        let expected = OutputAudioMessage(
            itemID: "item_1", contentIndex: 2, position: 48_000, format: .opus, payload: [7, 8])
        #expect(message == expected)
        var writer = ByteWriter(capacity: 32)
        expected.write(into: &writer)
        #expect(writer.copiedBytes == reply)
    }

    @Test func otherMessagesAreNoAudioOfAReply() {
        #expect(OutputAudioMessage(reply, format: .pcm) == nil)
        #expect(OutputAudioMessage(Array(reply[..<23]), format: .opus) == nil)
        #expect(OutputAudioMessage([2] + reply[1...], format: .opus) == nil)
    }

    @Test func aPacketHasANumberWhereTheClientNumbersThem() throws {
        let numbered = try input([1, 2, 9], isNumbered: true)
        #expect(numbered == (0x102, [9]))
        let plain = try input([1, 2, 9], isNumbered: false)
        #expect(plain == (nil, [1, 2, 9]))
        #expect(try input([1, 2], isNumbered: true) == (0x102, []))
    }

    @Test func aMessageThatIsNoAudioIsRefusedByName() {
        #expect(throws: ClientEventError.self) { try input([1], isNumbered: true) }
        let event = Array(#"{"type":"response.create"}"#.utf8)
        #expect(throws: ClientEventError.self) { try input(event, isNumbered: false) }
    }
}
