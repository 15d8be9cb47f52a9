// Messages that a peer compressed, inflated (RFC 7692 §7.2.2) with zlib. A message comes whole and
// is inflated in one go, but piece by piece: its size, its ratio and the UTF-8 of text are checked
// after each piece, so that a bomb ends when it reaches a limit and not when memory does. Blocks
// are counted too: one costs zlib the making of two tables, whether or not it brings anything.
//
// Invariant: no more is allocated than the message may have. Without a context nothing of a message
// outlives it, so that one inflater may serve all connections of a thread.

import CZlib

/// How far a message may grow.
public struct InflationLimits: Sendable {
    /// Bytes of a message once it is inflated. Default 21 MiB, as for one that is not compressed.
    public var maxMessageBytes = 21 << 20
    /// Bytes that one compressed byte may stand for. Default 100: JSON and text stay below 20,
    /// deflate reaches 1,032.
    public var maxRatio = 100
    /// Bytes that a message may have whatever its ratio. Default 256 KiB: five seconds of digital
    /// silence as base64, which compresses as a bomb does.
    public var freeBytes = 256 << 10
    /// Deflate blocks that a message may have however small they are. Default 4,096: a sender that
    /// flushes with each of as many frames as a message may have. zlib's own blocks have 16 KiB and
    /// more; a block that says nothing takes 11 bytes, and a microsecond of the reader.
    public var freeBlocks = 4_096
    /// Bytes that the others must bring on the average. Default 1 KiB: a message of 21 MiB may
    /// then keep its reader busy with blocks for some 25 ms, and not for two seconds.
    public var bytesPerBlock = 1_024

    /// The defaults.
    public init() {}

    /// The most that a message of so many compressed bytes may have.
    func allowance(forCompressed count: Int) -> Int {
        let (product, overflows) = count.multipliedReportingOverflow(by: maxRatio)
        return min(maxMessageBytes, max(freeBytes, overflows ? .max : product))
    }

    /// Whether so many blocks are too many for what they brought.
    func areTooMany(blocks: Int, bringing count: Int) -> Bool {
        blocks > freeBlocks && (blocks - freeBlocks) > count / bytesPerBlock
    }
}

/// Inflates messages, one after another.
public final class MessageInflater {
    private let windowBits: Int
    private let keepsContext: Bool
    /// Made for the first message; zlib keeps its address.
    private var stream: UnsafeMutablePointer<z_stream>?
    /// Blocks of the message so far.
    private var blocks = 0

    /// What a sender strips off the end of a message: 00 00 FF FF (RFC 7692 §7.2.1).
    private static let tail = UInt32(0xFFFF_0000).littleEndian
    /// In `data_type`: inflate stands between two blocks.
    private static let isBetweenBlocks: Int32 = 128
    /// In `data_type`: the block is its stream's last.
    private static let isLastBlock: Int32 = 64
    /// In `data_type`: bits of the last byte that are not used yet.
    private static let unusedBits: Int32 = 63

    /// Creates an inflater that holds no memory yet.
    /// - Parameters:
    ///   - windowBits: of the sender's window at most. 8…15.
    ///   - keepsContext: whether messages refer to earlier ones.
    public init(windowBits: Int, keepsContext: Bool) {
        precondition(PerMessageDeflate.windowBits.contains(windowBits))
        // Old zlibs that were told 8 used 9 without a word; a window too large does no harm here.
        self.windowBits = max(windowBits, PerMessageDeflate.deflatableWindowBits.lowerBound)
        self.keepsContext = keepsContext
    }

    deinit {
        guard let stream else { return }
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Bytes that an inflater holds once it is in use, as measured with zlib 1.2.13: 11.3 kB with
    /// a window of 12 bits, 40 kB with 15.
    public static func heldBytes(windowBits: Int) -> Int {
        (1 << max(windowBits, PerMessageDeflate.deflatableWindowBits.lowerBound)) + 7_200
    }

    /// Bytes that this inflater holds now.
    public var heldBytes: Int {
        stream == nil ? 0 : MessageInflater.heldBytes(windowBits: windowBits)
    }

    /// Inflates a whole message into `output`, which it empties first.
    /// - Parameters:
    ///   - payload: all of the message's frames, less than 4 GiB.
    ///   - isText: whether it must be UTF-8.
    /// - Throws: `.messageTooBig`, `.inflationRatioTooHigh`, `.tooManyBlocks`, `.invalidUTF8` or
    ///   `.invalidDeflate`.
    ///   An inflater that keeps contexts is of no further use then.
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
        // A message may consist of streams that end (RFC 7692 §7.2.3.4); whoever forgets the empty
        // block behind the last is understood all the same.
        if !hasEnded {
            let count = output.count
            let endsOddly = try withUnsafeBytes(of: MessageInflater.tail) {
                (tail) throws(WebSocketError) in
                try consume(tail, limits, allowance, &validator, into: output)
            }
            // The tail ends an empty block. Where it meant anything else, the message was cut off.
            guard !endsOddly, output.count == count,
                stream.pointee.data_type & MessageInflater.isBetweenBlocks != 0,
                stream.pointee.data_type & MessageInflater.unusedBits == 0
            else { throw .invalidDeflate }
        }
        guard validator?.isAtBoundary ?? true else { throw .invalidUTF8 }
    }

    /// Inflates a piece of input.
    /// - Returns: whether the deflate stream ended with it.
    private func consume(
        _ input: UnsafeRawBufferPointer, _ limits: InflationLimits, _ allowance: Int,
        _ validator: inout UTF8Validator?, into output: CompressionBuffer
    ) throws(WebSocketError) -> Bool {
        let stream = openStream()
        stream.pointee.next_in = input.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_in = UInt32(input.count)
        while true {
            // Where no room is left, one byte more tells a message too long from one that fits.
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
            // `Z_BLOCK` returns at the end of each; what follows a last block needs no more input.
            let place = stream.pointee.data_type
            let isBetweenBlocks = place & MessageInflater.isBetweenBlocks != 0
            if isBetweenBlocks { blocks += 1 }
            let hasMore = isBetweenBlocks && place & MessageInflater.isLastBlock != 0
            guard !limits.areTooMany(blocks: blocks, bringing: output.count) else {
                throw .tooManyBlocks
            }
            switch status {
            case Z_STREAM_END:
                // Another stream may follow, and refer to what this one said.
                inflateResetKeep(stream)
                if stream.pointee.avail_in == 0 { return true }
            case Z_OK, Z_BUF_ERROR:
                // Output that filled the room may have more behind it.
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
