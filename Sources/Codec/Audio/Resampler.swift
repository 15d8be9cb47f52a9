// Converts one stream of mono samples from one rate to another, by speexdsp's windowed-sinc filter.
//
// Invariant: n input samples give exactly ⌈n · to / from⌉ output samples, and the same ones however
// the input is split. In return, the output lags by half the filter's length (`latencySamples`):
// the filter starts on silence, and the last samples stay inside it. No allocation while
// processing. Mixing channels and writing files are not done here.

import CSpeexDSP

/// Why a resampler could not be created.
public enum ResamplerError: Error, Equatable {
    /// A rate outside `Resampler.supportedHertz`.
    case unsupportedRate(hertz: Int)
    /// Memory for the filter could not be allocated.
    case outOfMemory
}

/// Converts a stream of samples between rates.
public struct Resampler: ~Copyable {
    /// Accepted rates in hertz, from half of telephony's rate to studio masters. Beyond them, a
    /// small input would need an unreasonably large filter or output.
    public static let supportedHertz = 4_000...192_000

    /// speexdsp's quality, 0…10; a higher one has a longer filter. Chosen by measurement, 48 → 16
    /// kHz:
    ///
    ///     quality   lag    at 80% / 90% of the band   aliases from 110%   per 20 ms
    ///        2     1.0 ms     -0.3 / -8.9 dB              -68 dB             5 µs
    ///        3     1.5 ms      0.0 / -7.0 dB              -85 dB             7 µs
    ///        4     2.0 ms      0.0 / -2.3 dB              -85 dB             8 µs
    ///        6     3.0 ms      0.0 / -0.2 dB             -100 dB            13 µs
    ///       10     8.0 ms      0.0 /  0.0 dB             -100 dB            80 µs
    ///
    /// 4 keeps all of speech, with aliases below the noise of 16-bit samples. More is inaudible.
    static let defaultQuality: Int32 = 4

    /// Bytes of a filter's state between two of the rates 8, 16, 24 and 48 kHz. An estimate:
    /// speexdsp does not report it.
    public static let stateBytes = 3_000

    /// The input's rate.
    public let inputRate: SampleRate
    /// The output's rate.
    public let outputRate: SampleRate
    /// Nil if the rates are equal: samples are then copied without lag.
    private let state: OpaquePointer?
    /// Input samples so far, modulo the input rate: the fraction at which the next piece begins.
    private var phase = 0

    /// Creates a resampler at the start of a stream.
    /// - Throws: `.unsupportedRate`, `.outOfMemory`.
    public init(from input: SampleRate, to output: SampleRate) throws(ResamplerError) {
        try self.init(from: input, to: output, quality: Self.defaultQuality)
    }

    /// Creates a resampler with a filter of another `quality`, 0…10.
    init(from input: SampleRate, to output: SampleRate, quality: Int32) throws(ResamplerError) {
        state = try Self.makeFilter(from: input, to: output, quality: quality)
        inputRate = input
        outputRate = output
    }

    private static func makeFilter(
        from input: SampleRate, to output: SampleRate, quality: Int32
    ) throws(ResamplerError) -> OpaquePointer? {
        for rate in [input, output] where !supportedHertz.contains(rate.hertz) {
            throw .unsupportedRate(hertz: rate.hertz)
        }
        guard input != output else { return nil }
        let filter = speex_resampler_init(
            1, UInt32(input.hertz), UInt32(output.hertz), quality, nil)
        guard let filter else { throw .outOfMemory }
        return filter
    }

    deinit {
        if let state { speex_resampler_destroy(state) }
    }

    /// Lag of the output behind the input, in output samples. The lag is 32 samples of the
    /// lower rate: 2 ms at 16 kHz, 4 ms at 8 kHz.
    public var latencySamples: Int {
        state.map { Int(speex_resampler_get_output_latency($0)) } ?? 0
    }

    /// Exactly how many samples `process` will write for the next `inputSamples` of the stream.
    public func outputSamples(for inputSamples: Int) -> Int {
        let (from, to) = (inputRate.hertz, outputRate.hertz)
        return ((phase + inputSamples) * to + from - 1) / from - (phase * to + from - 1) / from
    }

    /// Room that `process` needs for any piece of `inputSamples`, at any position of the stream.
    public func maxOutputSamples(for inputSamples: Int) -> Int {
        // One more than `process` writes: speexdsp reads no input while it sees no room for output.
        (inputSamples * outputRate.hertz + inputRate.hertz - 1) / inputRate.hertz + 1
    }

    /// Converts the stream's next piece, all of it, and returns how many samples it wrote.
    /// - Precondition: `output` has room for `maxOutputSamples(for:)` and does not overlap `input`.
    public mutating func process(
        _ input: UnsafeBufferPointer<Int16>, into output: UnsafeMutableBufferPointer<Int16>
    ) -> Int {
        precondition(output.count >= maxOutputSamples(for: input.count))
        guard let source = input.baseAddress, !input.isEmpty else { return 0 }
        guard let state else { return output.update(fromContentsOf: input) }
        let expected = outputSamples(for: input.count)
        phase = (phase + input.count) % inputRate.hertz
        var (consumed, written) = (0, 0)
        // speexdsp may stop at the end of its own buffer; each call continues where the last one
        // stopped.
        while consumed < input.count {
            var inputCount = UInt32(clamping: input.count - consumed)
            var outputCount = UInt32(clamping: output.count - written)
            let code = speex_resampler_process_int(
                state, 0, source + consumed, &inputCount, output.baseAddress! + written,
                &outputCount)
            precondition(code == 0 && (inputCount > 0 || outputCount > 0), "speexdsp stands still")
            consumed += Int(inputCount)
            written += Int(outputCount)
        }
        precondition(written == expected)
        return written
    }

    /// Resets the resampler to the start of a stream.
    public mutating func reset() {
        phase = 0
        guard let state else { return }
        speex_resampler_reset_mem(state)
    }
}
