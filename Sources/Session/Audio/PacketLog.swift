// A stretch of Opus as it was received, so that it can be decoded again: the packets, and how many
// were missing before each. It takes a tenth of the samples' memory, and adding a packet copies
// some 60 bytes. HeardAudio decides which stretch is kept and when packets are too large.
//
// A record is a packet and the number of samples that it became:
//
//     plain    | length 1…250 | packet |                       nothing missing, decoded as it says
//     marked   | 255 | missing: 2 | samples: 2 | length: 2 | packet |        little-endian numbers
//
// Invariant: records follow one another on the timeline without gaps. No record spans two pieces,
// and none has more than `maxPacketBytes`.

import Codec

/// Received packets, in order.
struct PacketLog: Equatable, Sendable {
    /// The longest packet that is kept: 120 ms of samples would take this many bytes.
    static let maxPacketBytes = 960
    /// Audio before the wanted range that is decoded only to set the decoder's state. 200 ms: after
    /// a few packets the earlier state has no effect.
    static let leadSamples = 3_200

    /// Bytes of a full piece; with the array's header and the allocator's it is 2 KiB.
    private static let pieceBytes = 2_008
    /// Bytes by which the last piece grows, 160 ms at 24 kb/s: a stream has one such piece, which
    /// is half full on average.
    private static let growthBytes = 512
    /// Bytes that the array and the allocator add to a piece.
    private static let pieceOverhead = 40
    private static let longestPlain = 250
    private static let mark: UInt8 = 255
    private static let markedHeaderBytes = 7
    /// In a record: it was not known whether anything was missing.
    private static let unnumbered = 0xFFFF

    /// Records up to `pieceBytes`, and where the first of them begins.
    private struct Piece: Equatable {
        var bytes: [UInt8]
        let start: Int
    }

    /// The record that samples may still be added to, the last of the last piece.
    private struct OpenRecord: Equatable {
        let offset: Int
        let missing: Int?
        /// Samples that its packet says it has, if it is plain.
        var plainSamples: Int?
        var samples = 0
    }

    private var pieces: [Piece] = []
    private var open: OpenRecord?
    /// Where the first record lies on the timeline, and where the next one would.
    var start: Int { pieces.first?.start ?? end }
    private(set) var end: Int

    init(start: Int = 0) { end = start }

    var isEmpty: Bool { pieces.isEmpty }
    /// Bytes on the heap.
    var heldBytes: Int {
        guard let last = pieces.last else { return pieces.heapBytes }
        // The others count as full. Only where packets are huge may one have stopped a step before.
        return pieces.heapBytes + (pieces.count - 1) * (Self.pieceBytes + Self.pieceOverhead)
            + last.bytes.heapBytes
    }

    // MARK: Adding

    /// A packet has come; `extend(by:)` then gives its number of samples.
    /// - Parameter missing: packets that were lost before it; nil if they are not numbered.
    /// - Precondition: `packet` has at most `maxPacketBytes`.
    mutating func append(_ packet: RawSpan, missing: Int?) {
        precondition(packet.byteCount <= Self.maxPacketBytes)
        settle()
        let isShort = (1...Self.longestPlain).contains(packet.byteCount)
        let plainSamples =
            isShort && missing ?? 0 == 0
            ? try? OpusDecoder.sampleCount(of: packet, at: .hz16000) : nil
        let last = reserve(Self.markedHeaderBytes + packet.byteCount)
        open = OpenRecord(
            offset: pieces[last].bytes.count, missing: missing, plainSamples: plainSamples)
        if plainSamples != nil {
            pieces[last].bytes.append(UInt8(packet.byteCount))
        } else {
            appendHeader(missing: missing, length: packet.byteCount)
        }
        packet.withUnsafeBytes { pieces[last].bytes.append(contentsOf: $0) }
    }

    /// Makes room for a record.
    /// - Returns: the piece that it goes into.
    private mutating func reserve(_ count: Int) -> Int {
        if Self.pieceBytes - (pieces.last?.bytes.count ?? Self.pieceBytes) < count {
            pieces.append(Piece(bytes: [], start: end))
        }
        let last = pieces.count - 1
        let wanted = pieces[last].bytes.count + count
        if wanted > pieces[last].bytes.capacity {
            let blocks = (wanted + Self.pieceOverhead + Self.growthBytes - 1) / Self.growthBytes
            pieces[last].bytes.reserveCapacity(blocks * Self.growthBytes - Self.pieceOverhead)
        }
        return last
    }

    private mutating func appendHeader(missing: Int?, length: Int) {
        let last = pieces.count - 1
        func append(_ number: Int) {
            pieces[last].bytes.append(UInt8(truncatingIfNeeded: number))
            pieces[last].bytes.append(UInt8(truncatingIfNeeded: number >> 8))
        }
        pieces[last].bytes.append(Self.mark)
        append(min(missing ?? Self.unnumbered, Self.unnumbered))
        append(0)
        append(length)
    }

    /// Samples have been made of the last packet, or of those missing before it.
    mutating func extend(by count: Int) {
        open?.samples += count
        end += count
    }

    /// Records how many samples the last packet has become so far.
    mutating func settle() {
        guard let record = open, record.samples != record.plainSamples else { return }
        let last = pieces.count - 1
        if record.plainSamples != nil {
            // The packet did not become the samples that it states: it was refused, or cut by a
            // full buffer.
            let packet = Array(pieces[last].bytes[(record.offset + 1)...])
            pieces[last].bytes.removeSubrange(record.offset...)
            appendHeader(missing: record.missing, length: packet.count)
            pieces[last].bytes += packet
            open?.plainSamples = nil
        }
        let samples = UInt16(clamping: record.samples)
        pieces[last].bytes[record.offset + 3] = UInt8(truncatingIfNeeded: samples)
        pieces[last].bytes[record.offset + 4] = UInt8(truncatingIfNeeded: samples >> 8)
    }

    /// Forgets whole pieces that are not needed for the audio after a position.
    mutating func discard(before position: Int) {
        let needed = position - Self.leadSamples
        var count = 0
        while count + 1 < pieces.count, pieces[count + 1].start <= needed { count += 1 }
        if count > 0 { pieces.removeFirst(count) }
    }

    // MARK: Reading

    /// Appends the samples of a range to `output`: a decoder of its own goes through the packets,
    /// at about 20 µs for each, so not on a shard.
    /// - Throws: where there is no memory for the decoder.
    /// - Precondition: the range is kept, and the log is settled.
    func decode(_ range: Range<Int>, into output: inout [Int16]) throws(OpusError) {
        precondition(range.lowerBound >= start && range.upperBound <= end)
        guard !range.isEmpty else { return }
        var input = try OpusInput()
        let room = UnsafeMutableBufferPointer<Int16>.allocate(
            capacity: InputAudioDecoder.scratchSamples)
        defer { room.deallocate() }
        for (index, piece) in pieces.enumerated() {
            let pieceEnd = index + 1 < pieces.count ? pieces[index + 1].start : end
            if pieceEnd <= range.lowerBound - Self.leadSamples { continue }
            var position = piece.start
            var offset = 0
            while offset < piece.bytes.count, position < range.upperBound {
                let record = Record(in: piece.bytes, at: offset)
                let place = position..<position + record.samples
                let wanted = place.clamped(to: range)
                let before = output.count
                if place.upperBound > range.lowerBound - Self.leadSamples {
                    var next = place.lowerBound
                    let packet = piece.bytes.span.bytes.extracting(record.packet)
                    input.begin(packet, missing: record.missing)
                    while let samples = input.next(of: packet, into: room) {
                        let run = (next..<next + samples.count).clamped(to: wanted)
                        next += samples.count
                        guard !run.isEmpty else { continue }
                        let first = run.lowerBound - (next - samples.count)
                        output.append(contentsOf: samples[first..<first + run.count])
                    }
                }
                // The timeline keeps its length, whatever the decoder returns.
                let lacking = wanted.count - (output.count - before)
                output.append(contentsOf: repeatElement(0, count: lacking))
                position = place.upperBound
                offset = record.packet.upperBound
            }
        }
    }

    /// One record as it was written.
    private struct Record {
        let missing: Int?
        let samples: Int
        let packet: Range<Int>

        init(in bytes: [UInt8], at offset: Int) {
            func number(_ place: Int) -> Int {
                Int(bytes[offset + place]) | Int(bytes[offset + place + 1]) << 8
            }
            guard bytes[offset] == PacketLog.mark else {
                missing = nil
                packet = offset + 1..<offset + 1 + Int(bytes[offset])
                samples =
                    (try? OpusDecoder.sampleCount(
                        of: bytes.span.bytes.extracting(packet), at: .hz16000)) ?? 0
                return
            }
            missing = number(1) == PacketLog.unnumbered ? nil : number(1)
            samples = number(3)
            let first = offset + PacketLog.markedHeaderBytes
            packet = first..<first + number(5)
        }
    }
}
