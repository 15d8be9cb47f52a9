// A matrix times a vector: every layer of the voice activity network computes that.
//
// The arithmetic is CDense's, which has it for several processors. Weights are stored in tiles of 64
// outputs, input by input, so that the inner loop is one broadcast and independent multiply-adds that
// stream through memory in order.

import CDense

/// The instructions by which layers are computed. All give the same results but for rounding.
public enum DenseKernel: String, CaseIterable, Sendable {
    /// The instructions of every processor of the architecture: four floats at a time (SSE2, NEON).
    case baseline
    /// Eight floats at a time.
    case avx2
    /// Sixteen floats at a time.
    case avx512

    /// The widest that this processor has.
    public static let best = allCases.last(where: \.isAvailable)!

    /// Whether this processor has it.
    public var isAvailable: Bool { dense_kernel_is_available(native) }

    fileprivate var native: dense_kernel {
        switch self {
        case .baseline: DENSE_BASELINE
        case .avx2: DENSE_AVX2
        case .avx512: DENSE_AVX512
        }
    }
}

/// A matrix and a bias; immutable.
struct DenseLayer: Sendable {
    let inputs: Int
    let outputs: Int
    private let kernel: DenseKernel
    /// One per output.
    private let bias: [Float]
    /// Tile by tile, then input by input. Vectors of sixteen begin at the start of a cache line.
    private let weights: [SIMD16<Float>]

    /// Creates a layer; `weight(output, input)` gives the matrix.
    /// - Precondition: the number of outputs is a multiple of the tile's width, and the processor has
    ///   the kernel.
    init(inputs: Int, bias: [Float], kernel: DenseKernel, weight: (Int, Int) -> Float) {
        let width = Int(DENSE_TILE)
        precondition(bias.count % width == 0 && kernel.isAvailable)
        self.inputs = inputs
        outputs = bias.count
        self.bias = bias
        self.kernel = kernel
        weights = stride(from: 0, to: bias.count, by: width).flatMap { tile in
            (0..<inputs).flatMap { input in
                stride(from: tile, to: tile + width, by: SIMD16<Float>.scalarCount).map { start in
                    var vector = SIMD16<Float>.zero
                    for lane in vector.indices { vector[lane] = weight(start + lane, input) }
                    return vector
                }
            }
        }
    }

    /// Computes `bias + matrix · input` for some frames.
    ///
    /// A convolution is this layer over windows of consecutive time steps, which may overlap; the
    /// padding at either end is zeros. Each weight is read once for all frames.
    /// - Parameters:
    ///   - input: `inputs` values of the first frame.
    ///   - frames: how many frames there are. Frame n begins at `input + n * stride`.
    ///   - rectified: whether negative results become zero (ReLU).
    ///   - output: room for `outputs` values of each frame, frame after frame.
    func apply(
        _ input: UnsafePointer<Float>, frames: Int = 1, stride: Int = 0, rectified: Bool,
        into output: UnsafeMutablePointer<Float>
    ) {
        weights.withUnsafeBytes { weights in
            bias.withUnsafeBufferPointer { bias in
                var layer = dense_layer(
                    weights: weights.baseAddress!.assumingMemoryBound(to: Float.self),
                    bias: bias.baseAddress!, inputs: inputs, outputs: outputs)
                dense_apply(kernel.native, &layer, input, stride, frames, rectified, output)
            }
        }
    }
}
