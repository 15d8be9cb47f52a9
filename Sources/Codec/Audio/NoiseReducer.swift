// Noise reduction of one stream at 16 kHz, by speexdsp's preprocessor. Only its noise estimate and
// spectral suppression are used: no gain control, voice activity or echo cancellation. Session
// chooses how far noise is suppressed.

import CSpeexDSP

/// Suppresses steady noise in a stream of samples at 16 kHz. Takes about 25 kB of state and 33 µs
/// per 20 ms. The output lags 10 ms behind the input, plus up to 10 ms until a frame is whole.
public struct NoiseReducer: ~Copyable {
    /// Samples that are processed at once: 10 ms. Frames of 20 ms would take 47 kB and improve
    /// neither voice activity detection nor recognition.
    public static let frameSamples = 160

    /// Bytes of its state. An estimate: speexdsp does not report it.
    public static let stateBytes = 25_000

    private let state: OpaquePointer
    /// The frame that is being filled.
    private let frame: UnsafeMutableBufferPointer<Int16>
    private var filled = 0

    /// Creates a reducer at a stream's start; nil when memory cannot be allocated.
    /// - Parameter decibels: how far noise is suppressed at most, 1…60.
    public init?(decibels: Int) {
        precondition((1...60).contains(decibels))
        guard let state = speex_preprocess_state_init(Int32(Self.frameSamples), 16_000) else {
            return nil
        }
        var isOn: Int32 = 1
        speex_preprocess_ctl(state, SPEEX_PREPROCESS_SET_DENOISE, &isOn)
        var suppression = -Int32(decibels)
        speex_preprocess_ctl(state, SPEEX_PREPROCESS_SET_NOISE_SUPPRESS, &suppression)
        self.state = state
        frame = .allocate(capacity: Self.frameSamples)
        frame.initialize(repeating: 0)
    }

    deinit {
        speex_preprocess_state_destroy(state)
        frame.deallocate()
    }

    /// Takes the stream's next samples, in any number, and writes the frames that they complete.
    /// - Returns: samples written: whole frames.
    /// - Precondition: `output` has room for one frame more than the samples.
    public mutating func process(
        _ samples: UnsafeBufferPointer<Int16>, into output: UnsafeMutableBufferPointer<Int16>
    ) -> Int {
        precondition(output.count >= samples.count + Self.frameSamples)
        var (taken, written) = (0, 0)
        while taken < samples.count {
            let count = min(samples.count - taken, Self.frameSamples - filled)
            let piece = UnsafeBufferPointer(rebasing: samples[taken..<taken + count])
            _ = UnsafeMutableBufferPointer(rebasing: frame[filled..<filled + count])
                .update(fromContentsOf: piece)
            taken += count
            filled += count
            guard filled == Self.frameSamples else { break }
            speex_preprocess_run(state, frame.baseAddress!)
            filled = 0
            let room = UnsafeMutableBufferPointer(
                rebasing: output[written..<written + Self.frameSamples])
            _ = room.update(fromContentsOf: UnsafeBufferPointer(frame))
            written += Self.frameSamples
        }
        return written
    }
}
