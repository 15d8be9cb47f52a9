// One stream's voice activity: 32 ms windows in, the probability of speech out. TurnDetector
// decides when speech started or stopped; VoiceActivityModel has the weights.

/// The state of one stream through the voice activity network.
///
/// It allocates nothing until the first window and 1,280 bytes from then on; a window allocates
/// nothing. A copy is an independent stream.
public struct VoiceActivityDetector {
    /// Samples per window, at 16 kHz: 32 ms.
    public static let windowSamples = SileroShape.windowSamples

    private let model: VoiceActivityModel?
    /// Hidden state (128 floats), cell state (128), the previous window's last samples (64).
    private var state: [SIMD8<Float>] = []

    /// Bytes of its state.
    var heldBytes: Int { state.heapBytes }

    /// Creates a detector at the start of a stream.
    /// - Parameter model: shared weights; without them every window counts as silence.
    public init(model: VoiceActivityModel?) { self.model = model }

    /// Forgets the stream and frees its state.
    public mutating func reset() { state = [] }

    /// The probability, 0…1, that the window holds speech.
    /// - Precondition: `window` holds exactly `windowSamples` samples at 16 kHz.
    public mutating func process(_ window: UnsafeBufferPointer<Int16>) -> Float {
        precondition(window.count == Self.windowSamples)
        guard let model else { return 0 }
        return withState { model.step(window, state: $0) }
    }

    /// Puts a window into a batch; `take` completes it, before any other window of the stream.
    /// - Returns: its place there.
    mutating func put(
        _ window: UnsafeBufferPointer<Int16>, energy: WindowEnergy, into batch: VoiceActivityBatch
    ) -> Int {
        precondition(window.count == Self.windowSamples)
        return withState { batch.add(window, energy: energy, state: $0) }
    }

    /// The probability that the window at a place of a batch holds speech, and its energy.
    mutating func take(
        _ place: Int, from batch: VoiceActivityBatch
    ) -> (probability: Float, energy: WindowEnergy) {
        withState { batch.take(place, state: $0) }
    }

    private mutating func withState<Result>(_ body: (StreamState) -> Result) -> Result {
        if state.isEmpty { state = Array(repeating: .zero, count: StreamState.vectors) }
        return state.withUnsafeMutableBytes { body(StreamState($0.baseAddress!)) }
    }
}

/// Where the parts of a stream's state lie in its memory.
struct StreamState {
    /// Vectors of eight floats that the state takes.
    static let vectors = (2 * SileroShape.hidden + SileroShape.contextSamples) / 8

    let hidden: UnsafeMutablePointer<Float>
    let cell: UnsafeMutablePointer<Float>
    let context: UnsafeMutablePointer<Float>

    init(_ base: UnsafeMutableRawPointer) {
        hidden = base.assumingMemoryBound(to: Float.self)
        cell = hidden + SileroShape.hidden
        context = cell + SileroShape.hidden
    }
}
