// Samples in a quarter of their size (Codec/ADPCM), in pieces of 2 kB: audio is appended at the end
// and dropped at the front without a copy. HeardAudio uses it.
//
// Invariant: every piece but the last is full, and can be read without those before it.

import Codec

/// Samples as 4-bit codes, on the timeline of their owner.
struct CodedSamples: Equatable, Sendable {
    /// Bytes of a piece: 251 ms, so that little more is kept than is needed. With an array's header
    /// it is 2 KiB.
    static let pieceBytes = 2_016
    /// Bytes that the array and the allocator add to a piece.
    static let pieceOverhead = 48
    /// Before a piece's codes: the coder's state, `predictor` little-endian and `stepIndex`.
    private static let headerBytes = 4
    /// Samples of a full piece.
    static let pieceSamples = 2 * (pieceBytes - headerBytes)

    private var pieces: [[UInt8]] = []
    private var coder = ADPCM()
    /// Where the first sample lies on the timeline, and where the one after the last would.
    private(set) var start: Int
    private(set) var end: Int

    init(start: Int = 0) {
        self.start = start
        end = start
    }

    var isEmpty: Bool { start == end }
    /// Bytes on the heap.
    var heldBytes: Int {
        pieces.heapBytes + pieces.count * (Self.pieceBytes + Self.pieceOverhead)
    }

    mutating func append(_ samples: UnsafeBufferPointer<Int16>) {
        var rest = samples[...]
        while !rest.isEmpty {
            let filled = (end - start) % Self.pieceSamples
            if filled == 0 { beginPiece() }
            let run = rest.prefix(Self.pieceSamples - filled)
            pieces[pieces.count - 1].withUnsafeMutableBytes { bytes in
                coder.encode(
                    UnsafeBufferPointer(rebasing: run),
                    into: UnsafeMutableRawBufferPointer(rebasing: bytes[Self.headerBytes...]),
                    at: filled)
            }
            end += run.count
            rest = rest.dropFirst(run.count)
        }
    }

    private mutating func beginPiece() {
        var piece = [UInt8](repeating: 0, count: Self.pieceBytes)
        piece[0] = UInt8(truncatingIfNeeded: coder.predictor)
        piece[1] = UInt8(truncatingIfNeeded: coder.predictor >> 8)
        piece[2] = coder.stepIndex
        pieces.append(piece)
    }

    /// Forgets whole pieces that lie before a position.
    mutating func discard(before position: Int) {
        let count = (min(position, end) - start) / Self.pieceSamples
        guard count > 0 else { return }
        pieces.removeFirst(count)
        start += count * Self.pieceSamples
    }

    /// Appends the samples of a range to `output`.
    /// - Precondition: the range is kept.
    func decode(_ range: Range<Int>, into output: inout [Int16]) {
        precondition(range.lowerBound >= start && range.upperBound <= end)
        guard !range.isEmpty else { return }
        let first = (range.lowerBound - start) / Self.pieceSamples
        let last = (range.upperBound - 1 - start) / Self.pieceSamples
        withUnsafeTemporaryAllocation(of: Int16.self, capacity: Self.pieceSamples) { room in
            for index in first...last {
                let begin = start + index * Self.pieceSamples
                let wanted = range.clamped(to: begin..<begin + Self.pieceSamples)
                let piece = pieces[index]
                var decoder = ADPCM(
                    predictor: Int16(bitPattern: UInt16(piece[0]) | UInt16(piece[1]) << 8),
                    stepIndex: piece[2])
                let decoded = UnsafeMutableBufferPointer(
                    rebasing: room[..<(wanted.upperBound - begin)])
                piece.withUnsafeBytes {
                    decoder.decode(
                        UnsafeRawBufferPointer(rebasing: $0[Self.headerBytes...]), into: decoded)
                }
                output.append(contentsOf: decoded[(wanted.lowerBound - begin)...])
            }
        }
    }
}
