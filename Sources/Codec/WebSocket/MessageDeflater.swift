// Compresses messages for a peer (RFC 7692 §7.2.1) with zlib. Server decides which messages are
// worth compressing. Here compression of a message stops as soon as it is certain that it does not
// shrink.
//
// Invariant: compressed data never refers to data that the peer does not have. Without a context no
// state outlives a message, and an abandoned message is removed from the context.

import CZlib

/// Compresses messages, one after another.
public final class MessageDeflater {
    private let windowBits: Int
    private let keepsContext: Bool
    /// Created for the first message. It does not move, because zlib keeps its address.
    private var stream: UnsafeMutablePointer<z_stream>?

    /// zlib's effort, 1…9. Measured on the server's events: on those of 3 kB, 6 takes 60% more time
    /// for 2% fewer bytes. On small ones there is no difference.
    private static let level: Int32 = 1
    /// zlib's `memLevel`, 1…9. Measured on the same events: 5 compresses as well as 8. A context
    /// with a window of 12 bits then takes 39 kB instead of 153.
    private static let memoryLevel: Int32 = 5
    /// Bytes of the empty block that ends a flush. It is not sent.
    private static let tailBytes = 4

    /// Creates a deflater without memory.
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

    /// Bytes of a deflater in use, measured with zlib 1.2.13: 38.7 kB with a window of 12 bits, 153
    /// kB with 15.
    public static func heldBytes(windowBits: Int) -> Int {
        (1 << (windowBits + 2)) + (1 << (Int(memoryLevel) + 9)) + 6_100
    }

    /// Bytes that this deflater holds now.
    public var heldBytes: Int {
        stream == nil ? 0 : MessageDeflater.heldBytes(windowBits: windowBits)
    }

    /// Compresses a message into `output`, which is emptied first.
    /// - Parameters:
    ///   - payload: the message, less than 4 GiB.
    ///   - limit: maximum bytes of the result. Pass less than the payload's size if a message
    ///     that does not shrink is to be sent uncompressed.
    /// - Returns: false when the result exceeds `limit`. Send the payload uncompressed then.
    public func deflate(
        _ payload: UnsafeRawBufferPointer, atMost limit: Int, into output: CompressionBuffer
    ) -> Bool {
        let stream = openStream()
        output.removeAll()
        if payload.isEmpty {
            // zlib writes nothing for an empty message. RFC 7692 §7.2.3.6 specifies the byte to
            // send.
            guard limit >= 1 else { return false }
            output.room(for: 1)[0] = 0
            output.advance(by: 1)
            return true
        }
        // One byte more than needed: the flush is certainly complete only when zlib leaves room.
        let room = output.room(for: limit + MessageDeflater.tailBytes + 1)
        stream.pointee.next_in = payload.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_in = UInt32(payload.count)
        stream.pointee.next_out = room.assumingMemoryBound(to: UInt8.self).baseAddress
        stream.pointee.avail_out = UInt32(clamping: room.count)
        let status = CZlib.deflate(stream, Z_SYNC_FLUSH)
        precondition(status == Z_OK, "zlib has input and room")
        let written = Int(UInt32(clamping: room.count)) - Int(stream.pointee.avail_out)
        let isDone = stream.pointee.avail_out > 0
        // Later messages must not refer to an abandoned one.
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
