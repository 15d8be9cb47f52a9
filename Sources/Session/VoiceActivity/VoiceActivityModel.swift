// The Silero voice activity network: its weights, rearranged once, and one step of its arithmetic.
//
// Layout of the file (models/silero_vad.bin), all little-endian: the eight bytes "SILERO01", the
// count of floats as UInt32, then float32s in the order of `SileroShape`. The network is
// Silero VAD v5/v6 at 16 kHz (MIT): short-time spectrum → four convolutions → LSTM → sigmoid.
//
// A stream's state is in VoiceActivityDetector, so one model serves every session of every shard
// without a lock. The file's first layer is a windowed Fourier transform written out as a 258 × 256
// matrix. It is checked to be one and then computed as a fast transform (SpeechSpectrum), which
// saves almost half of the whole network's multiplications. Every other layer is a matrix times a
// vector (DenseLayer).

/// Why a file is not a usable voice activity model.
public enum VoiceActivityModelError: Error, Equatable {
    /// The file does not begin with "SILERO01".
    case notSileroWeights
    /// The file holds another number of floats than the network has.
    case wrongFloatCount(expected: Int, found: Int)
    /// A weight is infinite or not a number.
    case weightNotFinite(index: Int)
    /// The first layer is not the windowed Fourier transform that this code computes.
    case notAFourierBasis
}

/// Sizes of the network, fixed by its training.
enum SileroShape {
    /// New samples per step, at 16 kHz: 32 ms.
    static let windowSamples = 512
    /// Samples of the previous window that each step sees again.
    static let contextSamples = 64
    /// Time steps of the spectrum per window.
    static let frames = 4
    /// Channels after the spectrum and after each convolution.
    static let channels = (bins: 129, first: 128, second: 64, third: 64, fourth: 128)
    /// Width of the LSTM's hidden and cell state.
    static let hidden = 128
    /// Floats of the whole file.
    static let floatCount =
        2 * channels.bins * SpeechSpectrum.frameSamples
        + convolution(channels.bins, channels.first) + convolution(channels.first, channels.second)
        + convolution(channels.second, channels.third)
        + convolution(channels.third, channels.fourth)
        + 2 * 4 * hidden * (hidden + 1) + hidden + 1

    /// Floats of one convolution of kernel 3 with its bias.
    private static func convolution(_ inputs: Int, _ outputs: Int) -> Int {
        outputs * (inputs * 3 + 1)
    }
}

/// The weights of the voice activity network; immutable, shared by all threads.
public final class VoiceActivityModel: Sendable {
    let spectrum: SpeechSpectrum
    let first: DenseLayer
    let second: DenseLayer
    let third: DenseLayer
    let fourth: DenseLayer
    let gates: DenseLayer
    let output: [SIMD8<Float>]
    let outputBias: Float

    /// Reads the content of `models/silero_vad.bin`.
    /// - Parameter kernel: the instructions for its layers, which the processor must have.
    /// - Throws: the first rule of the format that the bytes break.
    public init(
        weights bytes: [UInt8], kernel: DenseKernel = .best
    ) throws(VoiceActivityModelError) {
        let floats = try Self.floats(in: bytes)
        var used = 0
        func take(_ count: Int) -> [Float] {
            defer { used += count }
            return Array(floats[used..<used + count])
        }
        let channels = SileroShape.channels
        let basis = take(2 * channels.bins * SpeechSpectrum.frameSamples)
        guard let spectrum = SpeechSpectrum(basis: basis) else { throw .notAFourierBasis }
        self.spectrum = spectrum
        // `taps` are the time steps of a kernel, of its three, that see more than padding.
        func takeConvolution(_ inputs: Int, _ outputs: Int, taps: Range<Int>) -> DenseLayer {
            let weights = take(outputs * inputs * 3)
            return DenseLayer(
                inputs: inputs * taps.count, bias: take(outputs), kernel: kernel
            ) { output, input in
                // The file has [output][channel][tap]; the layer reads tap by tap, because the
                // channels of neighbouring time steps follow one another in memory.
                weights[(output * inputs + input % inputs) * 3 + taps.lowerBound + input / inputs]
            }
        }
        first = takeConvolution(channels.bins, channels.first, taps: 0..<3)
        second = takeConvolution(channels.first, channels.second, taps: 0..<3)
        third = takeConvolution(channels.second, channels.third, taps: 1..<3)
        fourth = takeConvolution(channels.third, channels.fourth, taps: 1..<2)
        let hidden = SileroShape.hidden
        let inputWeights = take(4 * hidden * hidden)
        let hiddenWeights = take(4 * hidden * hidden)
        let bias = zip(take(4 * hidden), take(4 * hidden)).map { $0 + $1 }
        gates = DenseLayer(inputs: 2 * hidden, bias: bias, kernel: kernel) { output, input in
            input < hidden
                ? inputWeights[output * hidden + input]
                : hiddenWeights[output * hidden + input - hidden]
        }
        let outputWeights = take(hidden)
        output = (0..<hidden / 8).map { tile in
            SIMD8(outputWeights[tile * 8..<tile * 8 + 8])
        }
        outputBias = take(1)[0]
    }

    /// Checks the header and returns the floats behind it.
    private static func floats(in bytes: [UInt8]) throws(VoiceActivityModelError) -> [Float] {
        let header = Array("SILERO01".utf8)
        guard bytes.count >= header.count + 4, bytes.starts(with: header) else {
            throw .notSileroWeights
        }
        func word(_ offset: Int) -> UInt32 {
            (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << UInt32($1 * 8) }
        }
        let body = header.count + 4
        let found = min(Int(word(header.count)), (bytes.count - body) / 4)
        guard found == SileroShape.floatCount, bytes.count == body + found * 4 else {
            throw .wrongFloatCount(
                expected: SileroShape.floatCount, found: (bytes.count - body) / 4)
        }
        let floats = (0..<found).map { Float(bitPattern: word(body + $0 * 4)) }
        if let index = floats.firstIndex(where: { !$0.isFinite }) {
            throw .weightNotFinite(index: index)
        }
        return floats
    }
}

// MARK: - One step

extension VoiceActivityModel {
    /// Advances a stream by one window and returns the probability that it holds speech.
    /// - Parameters:
    ///   - window: `SileroShape.windowSamples` samples at 16 kHz.
    ///   - state: the stream's memory, zero at its start; updated.
    func step(_ window: UnsafeBufferPointer<Int16>, state: StreamState) -> Float {
        var memory = InlineArray<96, SIMD8<Float>>(repeating: .zero)
        return withUnsafeMutableBytes(of: &memory) { memory in
            let recurrent = memory.baseAddress!.assumingMemoryBound(to: Float.self)
            let gates = recurrent + 2 * SileroShape.hidden
            precondition((2 + 4) * SileroShape.hidden * MemoryLayout<Float>.size <= memory.count)
            prepare(window, state: state, into: recurrent)
            self.gates.apply(recurrent, rectified: false, into: gates)
            return complete(gates, state: state)
        }
    }

    /// The first part of a step: everything before the layer `gates`.
    /// - Parameters:
    ///   - state: the samples that the next window sees again are kept in it.
    ///   - recurrent: room for the layer's 256 inputs.
    func prepare(
        _ window: UnsafeBufferPointer<Int16>, state: StreamState,
        into recurrent: UnsafeMutablePointer<Float>
    ) {
        var memory = InlineArray<409, SIMD8<Float>>(repeating: .zero)
        withUnsafeMutableBytes(of: &memory) { memory in
            let buffers = StepBuffers(memory)
            prepareSamples(window, state: state, into: buffers.samples)
            encode(buffers, into: recurrent)
        }
        recurrent.advanced(by: SileroShape.hidden)
            .update(from: state.hidden, count: SileroShape.hidden)
    }

    /// Puts the context before the window and mirrors its end, and keeps the next context.
    @inline(__always)
    private func prepareSamples(
        _ window: UnsafeBufferPointer<Int16>, state: StreamState,
        into samples: UnsafeMutablePointer<Float>
    ) {
        let context = SileroShape.contextSamples
        let end = context + SileroShape.windowSamples
        samples.update(from: state.context, count: context)
        for index in 0..<SileroShape.windowSamples {
            samples[context + index] = Float(window[index]) * (1 / 32_768)
        }
        for index in 0..<SpeechSpectrum.spanSamples - end {
            samples[end + index] = samples[end - 2 - index]
        }
        state.context.update(from: samples + (end - context), count: context)
    }

    /// Spectrum and convolutions: writes 128 features.
    ///
    /// Kernels are three time steps wide and centred, with strides 1, 2, 2 and 1 over 4, 4, 2 and 1
    /// steps. Where a kernel reaches over an end of the first two layers, it reads a step of zeros.
    @inline(__always)
    private func encode(_ buffers: StepBuffers, into features: UnsafeMutablePointer<Float>) {
        let channels = SileroShape.channels
        spectrum.magnitudes(
            of: buffers.samples, real: buffers.real, imaginary: buffers.imaginary,
            into: buffers.magnitudes + channels.bins)
        first.apply(
            buffers.magnitudes, frames: 4, stride: channels.bins, rectified: true,
            into: buffers.first + channels.first)
        second.apply(
            buffers.first, frames: 2, stride: 2 * channels.first, rectified: true,
            into: buffers.second)
        third.apply(buffers.second, rectified: true, into: buffers.third)
        fourth.apply(buffers.third, rectified: true, into: features)
    }

    /// The last part of a step: the LSTM's element-wise half and the output neuron.
    /// - Parameter gates: the outputs of the layer `gates`.
    func complete(_ gates: UnsafeMutablePointer<Float>, state: StreamState) -> Float {
        let hidden = SileroShape.hidden
        func vectors(_ floats: UnsafeMutablePointer<Float>) -> UnsafeMutablePointer<SIMD8<Float>> {
            UnsafeMutableRawPointer(floats).assumingMemoryBound(to: SIMD8<Float>.self)
        }
        let inputGate = vectors(gates)
        let forgetGate = vectors(gates + hidden)
        let candidate = vectors(gates + 2 * hidden)
        let outputGate = vectors(gates + 3 * hidden)
        let cells = vectors(state.cell)
        let hiddens = vectors(state.hidden)
        var sum = SIMD8<Float>.zero
        for index in 0..<hidden / 8 {
            let kept = logistic(forgetGate[index]) * cells[index]
            let cell = kept + logistic(inputGate[index]) * hyperbolicTangent(candidate[index])
            let value = logistic(outputGate[index]) * hyperbolicTangent(cell)
            cells[index] = cell
            hiddens[index] = value
            sum += value.replacing(with: 0, where: value .< 0) * output[index]
        }
        return logistic(SIMD8(repeating: sum.sum() + outputBias))[0]
    }
}

/// Where the intermediate results of a step lie in its stack memory.
private struct StepBuffers {
    let samples: UnsafeMutablePointer<Float>
    let real: UnsafeMutablePointer<SIMD4<Float>>
    let imaginary: UnsafeMutablePointer<SIMD4<Float>>
    /// Four steps between two of zeros.
    let magnitudes: UnsafeMutablePointer<Float>
    /// A step of zeros and four others.
    let first: UnsafeMutablePointer<Float>
    let second: UnsafeMutablePointer<Float>
    let third: UnsafeMutablePointer<Float>

    @inline(__always)
    init(_ memory: UnsafeMutableRawBufferPointer) {
        var used = 0
        func take(_ floats: Int) -> UnsafeMutableRawPointer {
            // Every buffer begins where a vector of eight may.
            defer { used += (floats + 7) / 8 * MemoryLayout<SIMD8<Float>>.size }
            return memory.baseAddress! + used
        }
        func floats(_ count: Int) -> UnsafeMutablePointer<Float> {
            take(count).assumingMemoryBound(to: Float.self)
        }
        let channels = SileroShape.channels
        let frames = SileroShape.frames
        samples = floats(SpeechSpectrum.spanSamples)
        real = take(4 * SpeechSpectrum.points).assumingMemoryBound(to: SIMD4<Float>.self)
        imaginary = take(4 * SpeechSpectrum.points).assumingMemoryBound(to: SIMD4<Float>.self)
        magnitudes = floats((1 + frames + 1) * channels.bins)
        first = floats((1 + frames) * channels.first)
        second = floats(2 * channels.second)
        third = floats(channels.third)
        precondition(used <= memory.count)
    }
}

/// e^x to 2 units in the last place, for |x| ≤ 87; beyond that, e^±87.
@inline(__always)
private func exponential(_ x: SIMD8<Float>) -> SIMD8<Float> {
    let bounded = x.replacing(with: 87, where: x .> 87).replacing(with: -87, where: x .< -87)
    // Adding 1.5 · 2^23 rounds to a whole number, which then stands in the low mantissa bits.
    let shifter = SIMD8<Float>(repeating: 12_582_912)
    let shifted = bounded * 1.442_695_04 + shifter
    let power = shifted - shifter
    // ln 2 in two parts, so that the remainder is exact.
    let rest = bounded - power * 0.693_359_375 + power * 2.121_944_4e-4
    // The Taylor series to the sixth power: |rest| ≤ 0.35, so the next term is below 1.3e-7.
    var sum = rest * (1 / 720) + (1 / 120)
    sum = sum * rest + (1 / 24)
    sum = sum * rest + (1 / 6)
    sum = sum * rest + 0.5
    sum = sum * rest + 1
    sum = sum * rest + 1
    let exponent = SIMD8<Int32>(truncatingIfNeeded: unsafeBitCast(shifted, to: SIMD8<Int32>.self))
    let scale = unsafeBitCast((exponent &+ 127) &<< 23, to: SIMD8<Float>.self)
    return sum * scale
}

/// 1 / (1 + e^-x).
@inline(__always)
private func logistic(_ x: SIMD8<Float>) -> SIMD8<Float> {
    1 / (1 + exponential(-x))
}

/// tanh x, to 1.2e-7 absolute.
@inline(__always)
private func hyperbolicTangent(_ x: SIMD8<Float>) -> SIMD8<Float> {
    2 * logistic(2 * x) - 1
}
