// The property that every parser of Codec must have: its results do not depend on how the network
// splits a byte stream into reads. Parser tests use `expectChunkInvariant`.
//
// Invariant: deterministic; the splits come from a fixed seed.

import Codec
import TestMaterial
import Testing

/// Expects the same outcome for the stream whole, byte by byte, in two pieces near either end, with
/// empty pieces, and in pieces of random sizes.
/// - Parameter run: feeds the pieces to a new parser and returns the whole outcome, errors
///   included.
/// - Returns: the outcome of the whole stream, for the test to compare.
@discardableResult
func expectChunkInvariant<Outcome: Equatable>(
    _ stream: [UInt8], sourceLocation: SourceLocation = #_sourceLocation,
    _ run: ([[UInt8]]) -> Outcome
) -> Outcome {
    let whole = run([stream])
    var cuts: [(name: String, pieces: [[UInt8]])] = []
    // Byte by byte, long streams would take minutes in a debug build; random splits cover them.
    if stream.count <= 20_000 { cuts.append(("bytewise", stream.map { [$0] })) }
    if stream.count >= 2 {
        cuts.append(("first byte apart", [[stream[0]], Array(stream[1...])]))
        cuts.append(("last byte apart", [stream.dropLast(), stream.suffix(1)]))
    }
    cuts.append(("empty pieces", [[], stream, []]))
    for seed in 1...8 as ClosedRange<UInt64> {
        var generator = SeededGenerator(seed: seed)
        let longest = [3, 17, 200, 5000][Int(seed % 4)]
        var pieces: [[UInt8]] = []
        var start = 0
        while start < stream.count {
            let end = min(stream.count, start + Int.random(in: 0...longest, using: &generator))
            pieces.append(Array(stream[start..<end]))
            start = end
        }
        cuts.append(("random cuts, seed \(seed)", pieces))
    }
    for (name, pieces) in cuts {
        #expect(run(pieces) == whole, "\(name)", sourceLocation: sourceLocation)
    }
    return whole
}

/// The bytes of a text.
func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// The bytes that `body` writes.
func written(_ body: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter(capacity: 16)
    body(&writer)
    return writer.copiedBytes
}
