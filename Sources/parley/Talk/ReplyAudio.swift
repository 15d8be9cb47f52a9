// The spoken reply as samples: from base64 deltas or binary messages to one WAV file. Playing is not here,
// see MicrophoneConversation.

import Codec

/// Decodes reply audio and keeps it.
struct ReplyAudio: ~Copyable {
    /// The latest place in an item at which audio can start. A day: no reply is longer, and the
    /// sample count of a later place might not fit an Int.
    private static let maxStartMilliseconds = 86_400_000

    /// Decoded mono samples of all replies so far, at `rate`.
    private(set) var samples: [Int16] = []
    /// The rate of the format's samples.
    var rate: SampleRate { format.sampleRate }
    private let format: AudioFormat
    private var decoder: OpusDecoder?
    /// The item that is being received, and where its audio begins in `samples`.
    private var item = (id: "", start: 0)

    /// Creates an empty reply.
    /// - Throws: a `CommandFailure` where libopus refuses.
    init(format: AudioFormat) throws(CommandFailure) {
        self.format = format
        decoder = try reportingOpus { () throws(OpusError) in
            format == .opus ? try OpusDecoder(rate: format.sampleRate) : nil
        }
    }

    /// Adds the audio of a `response.output_audio.delta`, and returns its samples.
    /// - Parameter start: where in the item's audio it starts, in milliseconds. Where nil, it
    ///   follows the audio before.
    mutating func append(
        base64: String, itemID: String, start: Int?
    ) throws(CommandFailure) -> [Int16] {
        let text = Array(base64.utf8)
        var payload = ByteWriter(capacity: text.count)
        do throws(Base64Error) {
            try text.span.bytes.withUnsafeBytes { (text) throws(Base64Error) in
                try Base64.decode(text, into: &payload)
            }
        } catch {
            throw CommandFailure(description: "the server sent audio that is not base64")
        }
        guard start.map((0...Self.maxStartMilliseconds).contains) ?? true else {
            throw CommandFailure(description: "the server sent audio of \(itemID) out of its place")
        }
        return try append(
            payload.copiedBytes[...], itemID: itemID,
            position: start.map { rate.samples(inMilliseconds: $0) })
    }

    /// The id of the item that came last, and its length so far in samples.
    var itemEnd: (id: String, samples: Int) { (item.id, samples.count - item.start) }

    /// Adds a binary message, and returns its samples. A gap before it becomes silence; audio that
    /// is sent again replaces the earlier audio.
    mutating func append(binary message: [UInt8]) throws(CommandFailure) -> [Int16] {
        guard let packet = OutputAudioMessage(message, format: format) else {
            throw CommandFailure(description: "the server sent a binary message of unknown form")
        }
        return try append(packet.payload, itemID: packet.itemID, position: packet.position)
    }

    private mutating func append(
        _ payload: ArraySlice<UInt8>, itemID: String, position: Int?
    ) throws(CommandFailure) -> [Int16] {
        if item.id != itemID { item = (itemID, samples.count) }
        let decoded = try decode(payload)
        if let position {
            let missing = item.start + position - samples.count
            // A minute is far more than a server that drops late audio leaves out.
            guard (item.start - samples.count...rate.hertz * 60).contains(missing) else {
                throw CommandFailure(
                    description: "the server sent audio of \(itemID) out of its place")
            }
            if missing < 0 { samples.removeLast(-missing) }
            samples.append(contentsOf: repeatElement(0, count: max(0, missing)))
        }
        samples.append(contentsOf: decoded)
        return decoded
    }

    private mutating func decode(_ payload: ArraySlice<UInt8>) throws(CommandFailure) -> [Int16] {
        switch format {
        case .pcm, .pcm8000, .pcm16000, .pcm48000:
            return stride(from: payload.startIndex, to: payload.endIndex - 1, by: 2).map {
                Int16(bitPattern: UInt16(payload[$0]) | UInt16(payload[$0 + 1]) << 8)
            }
        case .pcmu, .pcma:
            var decoded = [Int16](repeating: 0, count: payload.count)
            let law = format == .pcmu ? G711.Law.mu : .a
            decoded.withUnsafeMutableBufferPointer {
                G711.decode(payload.span.bytes, law: law, into: $0)
            }
            return decoded
        case .opus:
            let most = rate.samples(inMilliseconds: OpusDecoder.maxPacketMilliseconds)
            var decoded = [Int16](repeating: 0, count: most)
            do throws(OpusError) {
                let count = try decoded.withUnsafeMutableBufferPointer {
                    (buffer) throws(OpusError) in
                    try decoder?.decode(payload.span.bytes, into: buffer) ?? 0
                }
                return Array(decoded[..<count])
            } catch {
                throw CommandFailure(description: "the server sent an undecodable packet: \(error)")
            }
        }
    }
}
