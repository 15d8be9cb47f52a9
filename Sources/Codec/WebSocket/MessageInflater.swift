// Inflates messages that a peer compressed (RFC 7692 §7.2.2) with zlib. A message is passed in
// whole and inflated piece by piece. Its size, its ratio and the UTF-8 of text are checked after
// each piece, so that a decompression bomb stops at a limit and not when memory runs out. Blocks
// are counted too: zlib builds two tables for each, even if it is empty.
//
// Invariant: no more is allocated than the message may have. Without a context no data of a message
// outlives it, so one inflater may serve all connections of a thread.

import CZlib

/// Limits on the size of an inflated message.
public struct InflationLimits: Sendable {
    /// Maximum bytes of an inflated message. Default 21 MiB, as for uncompressed messages.
    public var maxMessageBytes = 21 << 20
    /// Maximum inflated bytes per compressed byte. Default 100: JSON and text stay below 20,
    /// deflate reaches 1,032.
    public var maxRatio = 100
    /// Bytes that a message may have at any ratio. Default 256 KiB: five seconds of digital silence
    /// as base64, which compress like a bomb.
    public var freeBytes = 256 << 10
    /// Deflate blocks that a message may have at any size. Default 4,096: one for each frame of a
    /// message with the maximum number of frames. zlib's own blocks have 16 KiB and more. An empty
    /// block takes 11 bytes on the wire and one microsecond to read.
    public var freeBlocks = 4_096
    /// Average bytes that each further block must contain. Default 1 KiB: a message of 21 MiB then
    /// costs its reader some 25 ms for blocks, and not two seconds.
    public var bytesPerBlock = 1_024

    /// The defaults.
    public init() {}

    /// Maximum bytes of a message that has `count` compressed bytes.
    func allowance(forCompressed count: Int) -> Int {
        let (product, overflows) = count.multipliedReportingOverflow(by: maxRatio)
        return min(maxMessageBytes, max(freeBytes, overflows ? .max : product))
    }

    /// Whether `blocks` exceed what is allowed for `count` inflated bytes.
    func areTooMany(blocks: Int, bringing count: Int) -> Bool {
        blocks > freeBlocks && (blocks - freeBlocks) > count / bytesPerBlock
    }
}

/// Inflates messages, one after another.
public final class MessageInflater {
    private let windowBits: Int
    private let keepsContext: Bool
    /// Created for the first message. It does not move, because zlib keeps its address.
    private var stream: UnsafeMutablePointer<z_stream>?
    /// Blocks of the current message so far.
    private var blocks = 0

    /// The bytes 00 00 FF FF, which a sender removes from the end of a message (RFC 7692 §7.2.1).
    private static let tail = UInt32(0xFFFF_0000).littleEndian
    /// Flag in `data_type`: zlib is between two blocks.
    private static let isBetweenBlocks: Int32 = 128
    /// Flag in `data_type`: the block is the last of its stream.
    private static let isLastBlock: Int32 = 64
    /// Mask in `data_type`: unused bits of the last byte.
    private static let unusedBits: Int32 = 63

    /// Creates an inflater without memory.
    /// - Parameters:
    ///   - windowBits: maximum window of the sender. 8…15.
    ///   - keepsContext: whether messages may refer to earlier ones.
    public init(windowBits: Int, keepsContext: Bool) {
        precondition(PerMessageDeflate.windowBits.contains(windowBits))
        // Old versions of zlib silently used 9 for 8. A larger window than the sender's is
        // harmless.
        self.windowBits = max(windowBits, PerMessageDeflate.deflatableWindowBits.lowerBound)
        self.keepsContext = keepsContext
    }

    deinit {
        guard let stream else { return }
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Bytes of an inflater in use, measured with zlib 1.2.13: 11.3 kB with a window of 12 bits, 40
    /// kB with 15.
    public static func heldBytes(windowBits: Int) -> Int {
        (1 << max(windowBits, PerMessageDeflate.deflatableWindowBits.lowerBound)) + 7_200
    }

    /// Bytes that this inflater holds now.
    public var heldBytes: Int {
        stream == nil ? 0 : MessageInflater.heldBytes(windowBits: windowBits)
    }

    /// Inflates a whole message into `output`, which is emptied first.
    /// - Parameters:
    ///   - payload: all of the message's frames, less than 4 GiB.
    ///   - isText: whether it must be UTF-8.
    /// - Throws: `.messageTooBig`, `.inflationRatioTooHigh`, `.tooManyBlocks`, `.invalidUTF8` or
    ///   `.invalidDeflate`. An inflater that keeps contexts is unusable afterwards.
    func inflate(
        _ payload: UnsafeRawBufferPointer, isText: Bool, limits: InflationLimits,
        into output: CompressionBuffer
    ) throws(WebSocketError) {
        let stream = openStream()
        defer { if !keepsContext { inflateReset(stream) } }
        output.removeAll()
        blocks = 0
        var validator = isText ? UTF8Validator() : nil
        let allowance = limits.allowance(forCompressed: payload.count)
        let hasEnded = try consume(payload, limits, allowance, &validator, into: output)
        // A message may consist of streams that end (RFC 7692 §7.2.3.4). A missing empty block
        // after the last stream is accepted.
        if !hasEnded {
            let count = output.count
            let endsOddly = try withUnsafeBytes(of: MessageInflater.tail) {
                (tail) throws(WebSocketError) in
                try consume(tail, limits, allowance, &validator, into: output)
            }
            // The tail must end an empty block. If it had another effect, the message was cut off.
            guard !endsOddly, output.count == count,
                stream.pointee.data_type & MessageInflater.isBetweenBlocks != 0,
                stream.pointee.data_type & MessageInflater.unusedBits == 0
            else { throw .invalidDeflate }
        }
        guard validator?.isAtBoundary ?? true else { throw .invalidUTF8 }
    }

    /// Inflates a piece of input.
    /// - Returns: whether the deflate stream ended in it.
    private func consume(
        _ input: UnsafeRawBufferPointer, _ limits: InflationLimits, _ allowance: Int,
        _ validator: inout UTF8Validator?, into output: CompressionBuffer
    ) throws(WebSocketError) -> Bool {
        let stream = openStream()
        stream.pointee.next_in = input.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_in = UInt32(input.count)
        while true {
            // When no room is left, one more byte distinguishes a message that is too long from one
            // that just fits.
            var probe: UInt8 = 0
            let room = output.room(upTo: allowance)
            let status = withUnsafeMutableBytes(of: &probe) { probe in
                let target = room.isEmpty ? probe : room
                stream.pointee.next_out = target.assumingMemoryBound(to: UInt8.self).baseAddress
                stream.pointee.avail_out = UInt32(clamping: target.count)
                return CZlib.inflate(stream, Z_BLOCK)
            }
            let offered = room.isEmpty ? 1 : Int(UInt32(clamping: room.count))
            let written = offered - Int(stream.pointee.avail_out)
            guard !room.isEmpty || written == 0 else {
                throw allowance == limits.maxMessageBytes ? .messageTooBig : .inflationRatioTooHigh
            }
            output.advance(by: written)
            let piece = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(room)[..<written])
            guard validator?.append(piece) ?? true else { throw .invalidUTF8 }
            // `Z_BLOCK` returns at the end of each block, and after a last block without needing
            // more input.
            let place = stream.pointee.data_type
            let isBetweenBlocks = place & MessageInflater.isBetweenBlocks != 0
            if isBetweenBlocks { blocks += 1 }
            let hasMore = isBetweenBlocks && place & MessageInflater.isLastBlock != 0
            guard !limits.areTooMany(blocks: blocks, bringing: output.count) else {
                throw .tooManyBlocks
            }
            switch status {
            case Z_STREAM_END:
                // Another stream may follow and refer to data of this one.
                inflateResetKeep(stream)
                if stream.pointee.avail_in == 0 { return true }
            case Z_OK, Z_BUF_ERROR:
                // If the output filled the room, there may be more.
                if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0, !hasMore {
                    return false
                }
            case Z_MEM_ERROR: fatalError("Out of memory.")
            default: throw .invalidDeflate
            }
        }
    }

    private func openStream() -> UnsafeMutablePointer<z_stream> {
        if let stream { return stream }
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard parley_inflate_init_raw(stream, Int32(windowBits)) == Z_OK else {
            fatalError("Out of memory.")
        }
        self.stream = stream
        return stream
    }
}
