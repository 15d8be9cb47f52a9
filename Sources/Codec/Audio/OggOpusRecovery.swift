// Finds the end of an Ogg Opus stream that OggOpusWriter has not ended, so that it can be ended:
// the process was killed, and the last page may be written in part.
//
// The bytes are a file's, which may hold anything: whatever is not a whole page of such a stream is not
// part of it.
//
// Invariant: a position is no later than the packets before it reach, so that the stream which a
// writer continues is no longer than the file says.

/// The whole pages of a stream, as far as they go.
public struct OggOpusRecovery: Equatable, Sendable {
    /// Bytes of these pages. The bytes after them do not belong to the stream.
    public private(set) var byteCount = 0
    /// Whether the last of them ends the stream.
    public private(set) var isEnded = false
    private var serial: UInt32 = 0
    private var pages: UInt32 = 0
    /// The position of the last page, in samples at 48 kHz.
    private var position = 0

    /// Reads the pages at the start of a file; nil where there are not even the headers.
    /// - Parameter read: fills a buffer with the file's bytes from an offset on, and returns how many
    ///   there were; 0 ends the file.
    public init?(reading read: (_ offset: Int, UnsafeMutableRawBufferPointer) -> Int) {
        let room = UnsafeMutableRawBufferPointer.allocate(
            byteCount: OggPage.maxBytes, alignment: 1)
        defer { room.deallocate() }
        while !isEnded {
            let count = read(byteCount, room)
            guard count > 0, append(UnsafeRawBufferPointer(rebasing: room[..<count])) else { break }
        }
        guard pages >= 2 else { return nil }
    }

    /// Reads the pages at the start of some bytes; nil where there are not even the headers.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        self.init { offset, room in
            let count = min(room.count, bytes.count - offset)
            room.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count]))
            return count
        }
    }

    /// Samples at 48 kHz that are played of these pages.
    public var playedSamples: Int { max(0, position - OggOpusWriter.preSkip) }

    /// A writer that goes on after the last page.
    public var writer: OggOpusWriter {
        OggOpusWriter(continuing: serial, sequence: pages, position: position)
    }

    /// Takes the page at the start of some bytes.
    /// - Returns: whether there is one that belongs to the stream.
    private mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let page = try? OggPage(parsing: bytes), page.sequence == pages,
            page.beginsStream == (pages == 0), pages == 0 || page.serial == serial,
            let end = page.granulePosition.flatMap(Int.init(exactly:)),
            let samples = samples(of: page, in: bytes)
        else { return false }
        let whole = position + samples
        // The last page may be cut within its packets (RFC 7845 §4.4).
        guard page.endsStream ? (position...whole).contains(end) : end == whole else {
            return false
        }
        serial = page.serial
        position = end
        isEnded = page.endsStream
        byteCount += page.byteCount
        pages += 1
        return true
    }

    /// Samples at 48 kHz of a page's packets; nil where it is no page that the writer makes: of
    /// whole packets, two pages of headers first.
    private func samples(of page: OggPage, in bytes: UnsafeRawBufferPointer) -> Int? {
        guard !page.continuesPacket, let last = page.lacing.last, last < 255 else { return nil }
        let body = bytes[page.bodyStart..<page.byteCount]
        switch pages {
        case 0: return body.starts(with: "OpusHead".utf8) ? 0 : nil
        case 1: return body.starts(with: "OpusTags".utf8) ? 0 : nil
        default: break
        }
        var samples = 0
        var start = body.startIndex
        var end = start
        for length in page.lacing {
            end += Int(length)
            guard length < 255 else { continue }
            let packet = UnsafeRawBufferPointer(rebasing: bytes[start..<end]).bytes
            guard let count = try? OpusDecoder.sampleCount(of: packet, at: .hz48000) else {
                return nil
            }
            samples += count
            start = end
        }
        return samples
    }
}
