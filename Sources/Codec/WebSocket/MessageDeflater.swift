// Messages compressed for a peer (RFC 7692 §7.2.1) with zlib. Which messages are worth it is
// Server's decision; here a message that does not shrink is given up as soon as that is certain.
//
// Invariant: nothing that is written refers to what the peer does not have: without a context
// nothing outlives a message, and a message that was given up is forgotten.

import CZlib

/// Compresses messages, one after another.
public final class MessageDeflater {
    private let windowBits: Int
    private let keepsContext: Bool
    /// Made for the first message; zlib keeps its address.
    private var stream: UnsafeMutablePointer<z_stream>?

    /// zlib's effort, 1…9. Measured on events of the server: 6 takes 60% more time on those of 3 kB
    /// for 2% fewer bytes, and neither more nor less on small ones.
    private static let level: Int32 = 1
    /// zlib's `memLevel`, 1…9. Measured on the same: 5 compresses as well as 8, and a context with
    /// a window of 12 bits takes 39 kB with it instead of 153.
    private static let memoryLevel: Int32 = 5
    /// The empty block that ends a flush and is not sent.
    private static let tailBytes = 4

    /// Creates a deflater that holds no memory yet.
    /// - Parameters:
    ///   - windowBits: 9…15.
    ///   - keepsContext: whether messages may refer to earlier ones.
    public init(windowBits: Int, keepsContext: Bool) {
        precondition(PerMessageDeflate.deflatableWindowBits.contains(windowBits))
        self.windowBits = windowBits
        self.keepsContext = keepsContext
    }

    deinit {
        guard let stream else { return }
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Bytes that a deflater holds once it is in use, as measured with zlib 1.2.13: 38.7 kB with a
    /// window of 12 bits, 153 kB with 15.
    public static func heldBytes(windowBits: Int) -> Int {
        (1 << (windowBits + 2)) + (1 << (Int(memoryLevel) + 9)) + 6_100
    }

    /// Bytes that this deflater holds now.
    public var heldBytes: Int {
        stream == nil ? 0 : MessageDeflater.heldBytes(windowBits: windowBits)
    }

    /// Compresses a message into `output`, which it empties first.
    /// - Parameters:
    ///   - payload: the message, less than 4 GiB.
    ///   - limit: the most bytes that are of use; less than the payload has, where a message that
    ///     does not shrink is sent as it is.
    /// - Returns: false when more than `limit` bytes came of it; then nothing must be sent.
    public func deflate(
        _ payload: UnsafeRawBufferPointer, atMost limit: Int, into output: CompressionBuffer
    ) -> Bool {
        let stream = openStream()
        output.removeAll()
        if payload.isEmpty {
            // zlib flushes nothing twice; RFC 7692 §7.2.3.6 has the byte.
            guard limit >= 1 else { return false }
            output.room(for: 1)[0] = 0
            output.advance(by: 1)
            return true
        }
        // One byte more than can be used: zlib has only flushed for certain when room is left.
        let room = output.room(for: limit + MessageDeflater.tailBytes + 1)
        stream.pointee.next_in = payload.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_in = UInt32(payload.count)
        stream.pointee.next_out = room.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_out = UInt32(clamping: room.count)
        let status = CZlib.deflate(stream, Z_SYNC_FLUSH)
        precondition(status == Z_OK, "zlib has input and room")
        let written = Int(UInt32(clamping: room.count)) - Int(stream.pointee.avail_out)
        let isDone = stream.pointee.avail_out > 0
        // What was given up must not be referred to by what follows.
        if !keepsContext || !isDone { deflateReset(stream) }
        if isDone { output.advance(by: written - MessageDeflater.tailBytes) }
        return isDone
    }

    private func openStream() -> UnsafeMutablePointer<z_stream> {
        if let stream { return stream }
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let status = parley_deflate_init_raw(
            stream, MessageDeflater.level, Int32(windowBits), MessageDeflater.memoryLevel)
        guard status == Z_OK else { fatalError("Out of memory.") }
        self.stream = stream
        return stream
    }
}
