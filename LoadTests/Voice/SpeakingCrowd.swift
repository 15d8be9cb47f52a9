// Sessions that speak. Each sends a packet every 20 ms, and the sessions are spread evenly over these
// 20 ms. Messages of the server are read and discarded.

import CLinux
import Codec

/// Open sessions that speak.
final class SpeakingCrowd {
    /// A fixed mask: a random one for each message would cost the generator time and test nothing
    /// more.
    private static let mask: UInt32 = 0x37FA_213D

    private let descriptors: [Int32]
    /// The recording's packets as masked binary messages; an empty one is not sent.
    private let messages: [[UInt8]]
    private var round = 0
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    /// The lateness of each packet, in nanoseconds.
    private(set) var lateness = Samples()

    private static let update = """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":\
        {"type":"audio/opus"},"turn_detection":{"type":"server_vad","create_response":false,\
        "interrupt_response":false}}}}}
        """

    /// Opens the sessions and sets them up.
    init(_ count: Int, speech: SpokenLoop, at target: EchoTarget) throws(LoadFailure) {
        descriptors = try target.open(count)
        messages = speech.packets.map { $0.isEmpty ? [] : Self.message(.binary, $0) }
        let update = Self.message(.text, Array(Self.update.utf8))
        for descriptor in descriptors { try Self.send(update, on: descriptor) }
        poll(nil, 0, 500)
        try discardInput()
    }

    deinit { buffer.deallocate() }

    private static func message(_ opcode: WebSocketOpcode, _ payload: [UInt8]) -> [UInt8] {
        var writer = ByteWriter(capacity: payload.count + 16)
        payload.withUnsafeBytes {
            WebSocketFrame.write(opcode, payload: $0, mask: mask, into: &writer)
        }
        return writer.copiedBytes
    }

    private static func send(_ bytes: [UInt8], on descriptor: Int32) throws(LoadFailure) {
        guard parley_send(descriptor, bytes, bytes.count) == bytes.count else {
            throw .system("send")
        }
    }

    /// Ends the sessions.
    func hangUp() { for descriptor in descriptors { close(descriptor) } }

    /// Speaks for a time, and returns for how many times 20 ms all sessions together.
    @discardableResult
    func speak(forNanoseconds length: Int64) throws(LoadFailure) -> Int {
        let begin = monotonicNanoseconds()
        var rounds: Int64 = 0
        while rounds * SpokenLoop.packetNanoseconds < length {
            let due = begin + rounds * SpokenLoop.packetNanoseconds
            for (index, descriptor) in descriptors.enumerated() {
                let spread = SpokenLoop.packetNanoseconds * Int64(index) / Int64(descriptors.count)
                wait(until: due + spread)
                // Each session is at another position in the recording.
                let message = messages[(round + index * 37) % messages.count]
                if !message.isEmpty { try Self.send(message, on: descriptor) }
            }
            round += 1
            rounds += 1
            if rounds % 10 == 0 { try discardInput() }
        }
        wait(until: begin + rounds * SpokenLoop.packetNanoseconds)
        return Int(rounds) * descriptors.count
    }

    private func wait(until due: Int64) {
        var left = due - monotonicNanoseconds()
        while left > 0 {
            var time = timespec(tv_sec: 0, tv_nsec: Int(left))
            nanosleep(&time, nil)
            left = due - monotonicNanoseconds()
        }
        lateness.append(-left)
    }

    private func discardInput() throws(LoadFailure) {
        for descriptor in descriptors {
            let count = recv(
                descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            guard count != 0 else { throw LoadFailure("the server closed a session") }
        }
    }
}
