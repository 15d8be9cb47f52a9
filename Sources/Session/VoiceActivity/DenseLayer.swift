// A matrix times a vector: every layer of the voice activity network computes that.
//
// Weights are stored in tiles of 32 outputs, input by input, so that the inner loop is one
// broadcast and 32 independent multiply-adds that stream through memory in order. 32 outputs are
// eight SSE registers, half of what the smallest x86-64 has. A tile is four vectors of eight and
// not one of 32: Swift 6.3 keeps a `SIMD32` in memory, element by element, which is 200 × slower.

/// 32 neighbouring outputs of a layer.
struct OutputTile: Sendable {
    /// Outputs per tile.
    static let width = 32

    var a: SIMD8<Float>
    var b: SIMD8<Float>
    var c: SIMD8<Float>
    var d: SIMD8<Float>

    /// Collects `value(0)` … `value(31)`.
    init(_ value: (Int) -> Float) {
        func eight(_ start: Int) -> SIMD8<Float> { SIMD8((start..<start + 8).map(value)) }
        a = eight(0)
        b = eight(8)
        c = eight(16)
        d = eight(24)
    }

    /// Adds `weights · input`.
    @inline(__always)
    mutating func accumulate(_ weights: OutputTile, _ input: SIMD8<Float>) {
        a += weights.a * input
        b += weights.b * input
        c += weights.c * input
        d += weights.d * input
    }

    /// Replaces what is negative by zero (ReLU).
    @inline(__always)
    mutating func rectify() {
        a.replace(with: 0, where: a .< 0)
        b.replace(with: 0, where: b .< 0)
        c.replace(with: 0, where: c .< 0)
        d.replace(with: 0, where: d .< 0)
    }
}

/// A matrix and a bias; immutable.
struct DenseLayer: Sendable {
    let inputs: Int
    private let bias: [OutputTile]
    /// Tile by tile, one entry per input.
    private let weights: [OutputTile]

    /// Creates a layer; `weight(output, input)` gives the matrix.
    /// - Precondition: the number of outputs is a multiple of the tile's width.
    init(inputs: Int, bias: [Float], weight: (Int, Int) -> Float) {
        precondition(bias.count % OutputTile.width == 0)
        self.inputs = inputs
        let starts = stride(from: 0, to: bias.count, by: OutputTile.width)
        self.bias = starts.map { start in OutputTile { bias[start + $0] } }
        weights = starts.flatMap { start in
            (0..<inputs).map { input in OutputTile { weight(start + $0, input) } }
        }
    }

    /// Computes `bias + matrix · input` for the inputs `range`; the others count as zero.
    ///
    /// A convolution is this layer over a window of consecutive time steps, and the padding at
    /// either end is a shorter range.
    /// - Parameters:
    ///   - input: the values of `range`, from its lower bound on.
    ///   - rectified: whether negative results become zero.
    ///   - output: room for all outputs, aligned for vectors of eight.
    func apply(
        _ input: UnsafePointer<Float>, range: Range<Int>, rectified: Bool,
        into output: UnsafeMutablePointer<Float>
    ) {
        precondition(range.lowerBound >= 0 && range.upperBound <= inputs)
        let results = UnsafeMutableRawPointer(output).assumingMemoryBound(to: OutputTile.self)
        weights.withUnsafeBufferPointer { weights in
            for tile in bias.indices {
                let row = weights.baseAddress! + tile * inputs + range.lowerBound
                var sum = bias[tile]
                for index in 0..<range.count {
                    sum.accumulate(row[index], SIMD8(repeating: input[index]))
                }
                if rectified { sum.rectify() }
                results[tile] = sum
            }
        }
    }
}
