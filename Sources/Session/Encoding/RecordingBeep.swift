// The tone that tells a caller, again and again, that the call is recorded. It is mixed into the
// samples of replies just before they are encoded, so that a reply is neither longer nor later for it.
//
// It sounds with the agent's voice only: at its first words after the recording began, and at the
// first words after each interval. Packets that a speech service or the cache of phrases has encoded
// already are decoded for it, and encoded again (OutputAudioEncoder).

import Codec
import Glibc

/// The tone of one recording. Confined to its shard's thread.
final class RecordingBeep {
    /// 1,400 Hz for 200 ms: the recorder's warning tone of telephony (47 CFR 64.501).
    static let hertz = 1_400
    static let milliseconds = 200
    /// A tenth of full scale: the tone is heard beside speech, and does not cover it.
    private static let amplitude = 3_000.0

    private let interval: Duration
    private var next: Instant
    /// Milliseconds of the tone that are still to be mixed.
    private var leftMilliseconds = 0

    /// - Parameter interval: the time from one tone to the next.
    init(every interval: Duration, from start: Instant) {
        self.interval = interval
        next = start
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(RecordingBeep.self)
    /// Whether something of the tone is due.
    var isSounding: Bool { leftMilliseconds > 0 }

    /// Samples are about to be encoded.
    func review(at now: Instant) {
        guard !isSounding, now >= next else { return }
        leftMilliseconds = Self.milliseconds
        next = now + interval
    }

    /// Adds the part of the tone that is due to samples of whole milliseconds.
    /// - Returns: whether it has added anything.
    func mix(into samples: UnsafeMutableBufferPointer<Int16>, rate: SampleRate) -> Bool {
        guard isSounding else { return false }
        let begin = rate.samples(inMilliseconds: Self.milliseconds - leftMilliseconds)
        let count = min(samples.count, rate.samples(inMilliseconds: leftMilliseconds))
        let step = 2 * Double.pi * Double(Self.hertz) / Double(rate.hertz)
        for index in 0..<count {
            let tone = Self.amplitude * sin(step * Double(begin + index))
            samples[index] = Int16(clamping: Int(samples[index]) + Int(tone))
        }
        leftMilliseconds = max(0, leftMilliseconds - max(1, rate.milliseconds(ofSamples: count)))
        return true
    }
}
