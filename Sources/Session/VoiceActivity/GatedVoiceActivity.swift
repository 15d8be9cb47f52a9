// One stream's voice activity: the gate first, the network where the gate asks for it.
//
// The network's state stands still while windows are left out. When a window may hold speech, the
// windows just before it go through the network first, only to update its state. At an onset the
// state is then as if nothing had been left out. No window goes through the network twice, so a
// gate that opens too often costs no more than no gate.

/// The voice activity of one stream; a copy is an independent stream.
public struct GatedVoiceActivity {
    /// Samples before a window that the network is also given. Eight windows, 256 ms: older audio
    /// does not change the network's answers, and the padding before speech is about as long.
    public static let historySamples = 8 * VoiceActivityDetector.windowSamples

    private var detector: VoiceActivityDetector
    private var gate = VoiceActivityGate()
    /// Windows left out since the last one that went through the network.
    private var skippedWindows = 0

    /// Whether the last window was left out.
    public var isGateClosed: Bool { skippedWindows > 0 }

    /// Samples before its next window that the stream needs if the window may hold speech: those
    /// that it has left out.
    public var wantedSamples: Int {
        min(skippedWindows * VoiceActivityDetector.windowSamples, Self.historySamples)
    }

    /// Bytes of its state.
    var heldBytes: Int { detector.heldBytes }

    /// Creates the start of a stream.
    /// - Parameter model: shared weights; without them every window counts as silence.
    public init(model: VoiceActivityModel?) { detector = VoiceActivityDetector(model: model) }

    /// The probability, 0…1, that the stream's next window holds speech; 0 for one left out.
    /// - Parameters:
    ///   - audio: the window, preceded by as many of the `historySamples` before it as there are.
    ///   - senderHeardNothing: whether the window's packets are marked as silence.
    /// - Precondition: `audio` holds at least a window.
    public mutating func process(
        _ audio: UnsafeBufferPointer<Int16>, senderHeardNothing: Bool
    ) -> Float {
        guard let (window, energy) = admit(audio, senderHeardNothing) else { return 0 }
        let probability = detector.process(window)
        gate.handle(probability: probability, of: energy)
        return probability
    }

    /// Like `process`, but puts a window that needs the network into a batch. `take` completes it,
    /// before the stream's next window.
    /// - Returns: its place, or nil where the window was left out: then its probability is 0.
    mutating func put(
        _ audio: UnsafeBufferPointer<Int16>, senderHeardNothing: Bool,
        into batch: VoiceActivityBatch
    ) -> Int? {
        guard let (window, energy) = admit(audio, senderHeardNothing) else { return nil }
        return detector.put(window, energy: energy, into: batch)
    }

    /// The probability, 0…1, that the window at a place of a batch holds speech.
    mutating func take(_ place: Int, from batch: VoiceActivityBatch) -> Float {
        let (probability, energy) = detector.take(place, from: batch)
        gate.handle(probability: probability, of: energy)
        return probability
    }

    /// The next window, which the network is to judge, or nil where it is left out.
    @inline(__always)
    private mutating func admit(
        _ audio: UnsafeBufferPointer<Int16>, _ senderHeardNothing: Bool
    ) -> (UnsafeBufferPointer<Int16>, WindowEnergy)? {
        let size = VoiceActivityDetector.windowSamples
        precondition(audio.count >= size)
        let window = UnsafeBufferPointer(rebasing: audio.suffix(size))
        let energy = WindowEnergy(window)
        switch gate.decide(energy, senderHeardNothing: senderHeardNothing) {
        case .skip:
            skippedWindows += 1
            return nil
        case .recheck: skippedWindows = 0
        case .compute: catchUp(audio)
        }
        return (window, energy)
    }

    /// Runs the windows left out just before through the network.
    private mutating func catchUp(_ audio: UnsafeBufferPointer<Int16>) {
        guard skippedWindows > 0 else { return }
        let size = VoiceActivityDetector.windowSamples
        let count = min(skippedWindows, audio.count / size - 1)
        skippedWindows = 0
        for windowsBack in stride(from: count, to: 0, by: -1) {
            let start = audio.count - (windowsBack + 1) * size
            _ = detector.process(UnsafeBufferPointer(rebasing: audio[start..<start + size]))
        }
    }
}
