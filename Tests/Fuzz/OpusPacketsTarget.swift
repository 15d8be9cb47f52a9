// Audio packets through the whole input path of a session: numbered or not, in events or binary
// messages, lost, late, corrupt, and with changing formats. A packet gives samples or an error, and
// never more than its own 120 ms and the one second that may fill a gap. At the end the session
// holds no codec. The decoded samples are not compared: any bytes may be a sound.
//
// An input: a byte of choices, then operations: a byte for the kind, its numbers, its bytes.

import Codec
import Session

/// `opus_packets`: PacketOrder, OpusInput, InputAudioDecoder, CodecPool; OpusPackets.
enum OpusPacketsTarget: FuzzTarget {
    static let name = "opus_packets"

    /// Maximum operations of one input, for a short run.
    private static let maxOperations = 40
    /// Maximum samples at 16 kHz that one packet may give: a filled gap and the longest packet. The
    /// longest PCM input is shorter.
    private static let maxSamples = 16_000 + 1_920

    /// Operations of an input.
    private enum Operation: UInt8, CaseIterable {
        case next, afterGap, anyNumber, event, changeFormat, wait, clear, collect
    }

    static var seeds: [(name: String, bytes: [UInt8])] {
        let packets = (try? FuzzedOpus.packets()) ?? []
        func stream(_ operation: (Int) -> [UInt8]) -> [UInt8] {
            [0] + packets.enumerated().flatMap { operation($0.offset) + sized($0.element) }
        }
        return [
            ("in_order", stream { _ in [0] }),
            ("gaps", stream { [$0 % 3 == 0 ? 1 : 0] + ($0 % 3 == 0 ? [2] : []) }),
            ("any_number", stream { [2, 255, UInt8(truncatingIfNeeded: 250 + $0)] }),
            ("events", stream { [3, 0, UInt8(truncatingIfNeeded: $0)] }),
            ("collected", stream { _ in [7] }),
            ("corrupt", [0, 0, 3, 255, 255, 255, 0, 1, 0, 0, 0]),
        ]
    }

    private static func sized(_ packet: [UInt8]) -> [UInt8] {
        [UInt8(truncatingIfNeeded: packet.count)] + packet
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let client = FuzzedSpeaker(choices: Flags(rawValue: input.byte()))
        for _ in 0..<maxOperations where !input.isEmpty {
            let choice = Int(input.byte()) % Operation.allCases.count
            let before = client.samplesIn
            switch Operation.allCases[choice] {
            case .next: client.send(after: 0, packet(&input))
            case .afterGap: client.send(after: UInt16(input.byte()) << 6, packet(&input))
            case .anyNumber:
                client.number = UInt16(truncatingIfNeeded: input.number())
                client.send(after: 0, packet(&input))
            case .event:
                let number = UInt16(truncatingIfNeeded: input.number())
                client.append(packet(&input), number: number)
            case .changeFormat: client.changeFormat(input.byte())
            case .wait: client.wait(seconds: Int(input.byte() % 8))
            case .clear: client.clear()
            case .collect: collect(packet(&input))
            }
            require(
                client.samplesIn - before <= maxSamples,
                "\(client.samplesIn - before) samples of one packet")
        }
        client.finish()
    }

    private static func packet(_ input: inout FuzzInput) -> [UInt8] {
        input.take(Int(input.byte()))
    }

    /// A packet as a speech service sends it: kept unchanged or refused.
    private static func collect(_ packet: [UInt8]) {
        var packets = OpusPackets()
        do {
            try packets.append(packet.span.bytes)
            require(packets.count == 1 && Array(packets[0]) == packet, "another packet came out")
        } catch {
            require(packets.count == 0 && packets.byteCount == 0, "\(error), and yet it is there")
        }
    }
}

/// A session whose client sends packets.
private final class FuzzedSpeaker {
    private let context: SessionContext
    private let session: VoiceSession
    private var now = Instant(nanoseconds: 0)
    var number: UInt16 = 0
    private var isNumbered: Bool

    var samplesIn: Int { context.samplesIn }

    init(choices: Flags) {
        var limits = SessionLimits()
        limits.maxBufferedAudioSeconds = choices.contains(.bit(1)) ? 1 : 60
        context = SessionContext(
            limits: limits, voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true)
        var parameters = SessionParameters(model: "fuzz")
        parameters.inputFormat = .opus
        isNumbered = !choices.contains(.bit(0))
        parameters.inputIsNumbered = isNumbered
        session = VoiceSession(parameters: parameters, context: context, seed: 1)
        session.start(at: now)
        drain()
    }

    func send(after gap: UInt16, _ packet: [UInt8]) {
        number &+= gap
        let header = [UInt8(number >> 8), UInt8(truncatingIfNeeded: number)]
        number &+= 1
        let message = (isNumbered ? header : []) + packet
        now = now + .milliseconds(20)
        session.handleBinary(message, at: now)
        drain()
    }

    func append(_ packet: [UInt8], number: UInt16) {
        now = now + .milliseconds(20)
        session.handle(
            .inputAudioBufferAppend(sequence: number), eventID: nil, audio: packet.span.bytes,
            at: now)
        drain()
    }

    func changeFormat(_ choice: UInt8) {
        var update = SessionUpdate()
        let formats = AudioFormat.allCases
        update.inputFormat = .value(formats[Int(choice) % formats.count])
        isNumbered = choice & 0x80 != 0 && formats[Int(choice) % formats.count] == .opus
        update.inputIsNumbered = .value(isNumbered)
        session.handle(.sessionUpdate(update), eventID: nil, audio: RawSpan(), at: now)
        drain()
    }

    func clear() {
        session.handle(.inputAudioBufferClear, eventID: nil, audio: RawSpan(), at: now)
        drain()
    }

    func wait(seconds: Int) {
        let end = now + .seconds(seconds)
        while let deadline = session.nextDeadline(after: now), deadline <= end {
            require(deadline > now, "a deadline that is not after now")
            now = deadline
            session.handleDeadline(at: now)
            drain()
        }
        now = end
    }

    /// Ends the speech.
    func finish() {
        wait(seconds: 20)
        require(context.codecUse.decodersInUse == 0, "an idle session holds a decoder")
    }

    private func drain() { while session.nextOutput() != nil {} }
}

/// Real packets of a sound with edges, so that fuzzing starts from packets that decode.
private enum FuzzedOpus {
    static func packets() throws -> [[UInt8]] {
        var encoder = try OpusEncoder(rate: .hz16000, bitrate: 12_000)
        var room = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
        var packets: [[UInt8]] = []
        for packet in 0..<12 {
            let samples = (0..<320).map { Int16(($0 * (packet + 3)) % 200 * 80 - 8_000) }
            let count = try room.withUnsafeMutableBytes { target in
                try samples.withUnsafeBufferPointer { source in
                    try encoder.encode(source, into: target)
                }
            }
            packets.append(Array(room[..<count]))
        }
        return packets
    }
}
