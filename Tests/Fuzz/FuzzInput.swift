// The bytes of one run, as choices and as streams. The first bytes of an input are choices (which
// parser, which limits, how the stream is split). The rest is the stream itself, unchanged, so that
// libFuzzer's dictionaries and comparisons reach the parser.
//
// Invariant: any bytes are a valid input; missing choices are 0.

import Simulation

/// Reads an input from its front.
package struct FuzzInput {
    private var bytes: ArraySlice<UInt8>

    /// Copies the input.
    package init(_ bytes: UnsafeRawBufferPointer) { self.bytes = Array(bytes)[...] }

    /// Whether no bytes are left.
    var isEmpty: Bool { bytes.isEmpty }

    /// The next byte; 0 at the end.
    package mutating func byte() -> UInt8 { bytes.popFirst() ?? 0 }

    /// A number from two bytes, 0…65,535.
    mutating func number() -> Int { Int(byte()) << 8 | Int(byte()) }

    /// The next `count` bytes, or as many as are left.
    mutating func take(_ count: Int) -> [UInt8] {
        let taken = Array(bytes.prefix(count))
        bytes.removeFirst(taken.count)
        return taken
    }

    /// All remaining bytes.
    mutating func rest() -> [UInt8] { take(bytes.count) }
}

/// The choices of one byte, bit by bit.
struct Flags: OptionSet {
    let rawValue: UInt8

    /// The bit of a number, 0…7.
    static func bit(_ number: Int) -> Flags { Flags(rawValue: 1 << UInt8(number)) }
}

/// How a stream is split into reads; a byte of the input chooses it.
struct Chunking {
    private let choice: UInt8

    init(_ choice: UInt8) { self.choice = choice }

    /// Longer streams are split into large pieces, because small ones would take most of the time.
    private static let maxBytesInSmallPieces = 8_192

    /// The stream in pieces, some of them empty. Choice 0 is byte by byte.
    func pieces(of stream: [UInt8]) -> [[UInt8]] {
        let isLong = stream.count > Chunking.maxBytesInSmallPieces
        if choice == 0, !isLong { return stream.map { [$0] } }
        var generator = SeededGenerator(seed: UInt64(choice))
        let longest = isLong ? 5_000 : [400, 2, 7, 40][Int(choice % 4)]
        var pieces: [[UInt8]] = []
        var start = 0
        while start < stream.count {
            let end = min(stream.count, start + Int.random(in: 0...longest, using: &generator))
            pieces.append(Array(stream[start..<end]))
            start = end
        }
        return pieces
    }
}

/// Requires the same outcome for a stream whole and in pieces, and returns it.
@discardableResult
func requireChunkInvariant<Outcome: Equatable>(
    _ stream: [UInt8], _ chunking: Chunking, _ run: ([[UInt8]]) -> Outcome
) -> Outcome {
    let whole = run([stream])
    let cut = run(chunking.pieces(of: stream))
    require(whole == cut, "whole: \(whole)\nin pieces: \(cut)")
    return whole
}

/// Calls a parser with an array's bytes and keeps its error type.
func withBytes<Value, Failure: Error>(
    of bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
) throws(Failure) -> Value {
    try bytes.withUnsafeBytes { buffer -> Result<Value, Failure> in
        do throws(Failure) {
            return .success(try body(buffer))
        } catch {
            return .failure(error)
        }
    }.get()
}
