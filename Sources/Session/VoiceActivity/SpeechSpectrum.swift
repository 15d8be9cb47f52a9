// The short-time spectrum that the voice activity network sees: magnitudes of four overlapping,
// windowed frames of 256 samples, 128 apart.
//
// The four frames are the four lanes of every vector, so the transform below reads like scalar
// code and needs no shuffles. A real frame of 256 samples is transformed as 128 complex numbers
// (even samples real, odd samples imaginary) and split afterwards; radix 2, decimation in time.

import Glibc

/// A windowed Fourier transform of four frames at once; immutable, shared by all threads.
struct SpeechSpectrum: Sendable {
    /// Samples per frame.
    static let frameSamples = 256
    /// Samples from one frame's start to the next one's.
    static let hopSamples = 128
    /// Samples that four frames span.
    static let spanSamples = frameSamples + 3 * hopSamples
    /// Magnitudes per frame: 0 Hz to half the sampling rate.
    static let bins = frameSamples / 2 + 1
    /// Complex numbers that `magnitudes(of:…)` works in.
    static let points = frameSamples / 2

    private let window: [Float]
    /// e^(-2πi k / 256) for k in 0…128.
    private let cosines: [Float]
    private let sines: [Float]
    /// The index of each complex input in bit-reversed order.
    private let reversed: [Int]

    /// Reads the window from the first row of a transform. The transform is a matrix of 129 cosine
    /// rows and 129 negative sine rows. Returns nil if the matrix is something else.
    init?(basis: [Float]) {
        let size = Self.frameSamples
        precondition(basis.count == 2 * Self.bins * size)
        window = Array(basis[0..<size])
        // Each angle is computed once, in double precision, for both the check and the transform.
        let cosine = (0..<size).map { cos(2 * Double.pi * Double($0) / Double(size)) }
        let sine = (0..<size).map { sin(2 * Double.pi * Double($0) / Double(size)) }
        let tolerance = 1e-5
        for bin in 0..<Self.bins {
            for sample in 0..<size {
                let angle = bin * sample % size
                let real = Double(window[sample]) * cosine[angle]
                let imaginary = -Double(window[sample]) * sine[angle]
                let realError = abs(Double(basis[bin * size + sample]) - real)
                let row = Self.bins + bin
                let imaginaryError = abs(Double(basis[row * size + sample]) - imaginary)
                guard realError < tolerance, imaginaryError < tolerance else { return nil }
            }
        }
        cosines = cosine.prefix(Self.points + 1).map { Float($0) }
        sines = sine.prefix(Self.points + 1).map { Float(-$0) }
        reversed = (0..<Self.points).map { index in
            (0..<7).reduce(0) { $0 | (index >> $1 & 1) << (6 - $1) }
        }
    }

    /// Writes the magnitudes of the four frames of `samples`, frame after frame.
    /// - Parameters:
    ///   - samples: `spanSamples` samples.
    ///   - real, imaginary: room for `points` vectors each.
    ///   - magnitudes: room for `4 * bins` floats.
    func magnitudes(
        of samples: UnsafePointer<Float>, real: UnsafeMutablePointer<SIMD4<Float>>,
        imaginary: UnsafeMutablePointer<SIMD4<Float>>, into magnitudes: UnsafeMutablePointer<Float>
    ) {
        load(samples, real, imaginary)
        transform(real, imaginary)
        split(real, imaginary, into: magnitudes)
    }

    /// Windows the frames and places them in bit-reversed order.
    @inline(__always)
    private func load(
        _ samples: UnsafePointer<Float>, _ real: UnsafeMutablePointer<SIMD4<Float>>,
        _ imaginary: UnsafeMutablePointer<SIMD4<Float>>
    ) {
        let hop = Self.hopSamples
        @inline(__always)
        func windowed(_ index: Int, _ window: UnsafeBufferPointer<Float>) -> SIMD4<Float> {
            let frames = samples + index
            return SIMD4(frames[0], frames[hop], frames[2 * hop], frames[3 * hop]) * window[index]
        }
        window.withUnsafeBufferPointer { window in
            for index in 0..<Self.points {
                let target = reversed[index]
                real[target] = windowed(2 * index, window)
                imaginary[target] = windowed(2 * index + 1, window)
            }
        }
    }

    /// The complex transform of 128 points, in place.
    @inline(__always)
    private func transform(
        _ real: UnsafeMutablePointer<SIMD4<Float>>, _ imaginary: UnsafeMutablePointer<SIMD4<Float>>
    ) {
        cosines.withUnsafeBufferPointer { cosines in
            sines.withUnsafeBufferPointer { sines in
                var half = 1
                while half < Self.points {
                    // The table counts in 256ths of a circle, this stage in (2 · half)ths.
                    let step = Self.points / half
                    for offset in 0..<half {
                        let cosine = cosines[offset * step]
                        let sine = sines[offset * step]
                        for low in stride(from: offset, to: Self.points, by: 2 * half) {
                            let high = low + half
                            let turnedReal = real[high] * cosine - imaginary[high] * sine
                            let turnedImaginary = real[high] * sine + imaginary[high] * cosine
                            real[high] = real[low] - turnedReal
                            imaginary[high] = imaginary[low] - turnedImaginary
                            real[low] += turnedReal
                            imaginary[low] += turnedImaginary
                        }
                    }
                    half *= 2
                }
            }
        }
    }

    /// Separates the even and odd samples' spectra, joins them to the frames' and takes magnitudes.
    @inline(__always)
    private func split(
        _ real: UnsafeMutablePointer<SIMD4<Float>>,
        _ imaginary: UnsafeMutablePointer<SIMD4<Float>>,
        into magnitudes: UnsafeMutablePointer<Float>
    ) {
        for bin in 0...Self.points {
            let near = bin % Self.points
            let far = (Self.points - bin) % Self.points
            let evenReal = real[near] + real[far]
            let evenImaginary = imaginary[near] - imaginary[far]
            let oddReal = imaginary[near] + imaginary[far]
            let oddImaginary = real[far] - real[near]
            let cosine = cosines[bin]
            let sine = sines[bin]
            let sumReal = evenReal + (oddReal * cosine - oddImaginary * sine)
            let sumImaginary = evenImaginary + (oddReal * sine + oddImaginary * cosine)
            let magnitude = (sumReal * sumReal + sumImaginary * sumImaginary).squareRoot() * 0.5
            for frame in 0..<4 {
                magnitudes[frame * Self.bins + bin] = magnitude[frame]
            }
        }
    }
}
