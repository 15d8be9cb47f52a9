// Finds the end of an Ogg Opus stream that its writer has not ended, so that OggOpusWriter can: the
// process was killed, and the last page may be written in part.
//
// The bytes are a file's, which may hold anything: whatever is not a whole page of the stream is not
// part of it.

/// The whole pages of a stream, as far as they go.
public struct OggOpusRecovery: Equatable, Sendable {
    /// Bytes of these pages. What follows them is no page.
    public let byteCount: Int
    /// Whether the last of them ends the stream.
    public let isEnded: Bool
    private let serial: UInt32
    private let nextSequence: UInt32
    /// The position of the last page, in samples at 48 kHz.
    private let position: Int

    /// Reads the pages at the start of a file; nil where there are not even the headers.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        var offset = 0
        var pages = 0
        var serial: UInt32?
        var position: Int64 = 0
        var isEnded = false
        while !isEnded, offset < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            guard let page = try? OggPage(parsing: rest),
                page.sequence == UInt32(clamping: pages), page.serial == serial ?? page.serial,
                page.granulePosition ?? position >= position
            else { break }
            serial = page.serial
            position = page.granulePosition ?? position
            isEnded = page.endsStream
            offset += page.byteCount
            pages += 1
        }
        guard let serial, pages >= 2, let position = Int(exactly: position) else { return nil }
        byteCount = offset
        self.isEnded = isEnded
        self.serial = serial
        nextSequence = UInt32(clamping: pages)
        self.position = position
    }

    /// Samples at 48 kHz that are played of these pages.
    public var playedSamples: Int { max(0, position - OggOpusWriter.preSkip) }

    /// A writer that goes on after the last page.
    public var writer: OggOpusWriter {
        OggOpusWriter(continuing: serial, sequence: nextSequence, position: position)
    }
}
