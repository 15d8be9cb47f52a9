// The levels of the reply that the client plays, frame by frame, on a clock of its playing. The
// clock stands still while the reply is held, so that audio that is sent again keeps its place.
//
//      played            now                    sent
//   ─────┴────────────────┴──────────────────────┴──▶ playing clock, frames of 16 ms
//        │ may still be heard as an echo │ to come │
//
// Invariant: a frame that is not kept counts as silence. The kept frames never last longer than the
// ring.

import Codec

/// The levels of reply audio, from 0.6 s ago to the end of the audio that was sent.
struct PlayedLevels {
    /// Frames behind now that can be asked for. 44: 700 ms.
    static let past = 44

    /// Half decibels.
    private var ring: [SIMD8<UInt8>]
    /// When the playing clock stood at 0, holds left out.
    private var origin: Instant
    /// Where on that clock the audio that was sent ends, in samples at 48 kHz.
    private var end = 0
    /// The first frame that is kept.
    private var firstFrame = 0
    /// Where the clock stands still, or nil where it runs.
    private var heldAt: Int?
    private var bands: SpeechBands?
    /// The last frame that was not silent.
    private var lastAudible = -PlayedLevels.past

    /// - Parameter lead: how far audio is sent ahead of its playing.
    init(lead: Duration, at now: Instant) {
        let ahead = SampleRate.hz48000.samples(inMilliseconds: lead.wholeMilliseconds)
        ring = Array(
            repeating: SIMD8(), count: Self.past + ahead / SpeechBands.frameLength + 16)
        origin = now
    }

    /// Bytes on the heap.
    var heldBytes: Int { ring.heapBytes }

    /// Whether the reply is held.
    var isHeld: Bool { heldAt != nil }

    /// Where the playing clock stands, in frames.
    func frame(at now: Instant) -> Int { position(at: now) / SpeechBands.frameLength }

    private func position(at now: Instant) -> Int {
        heldAt ?? Int((now - origin).wholeNanoseconds * 48 / 1_000_000)
    }

    /// Whether something audible was played shortly before a frame, or is to come at once.
    func isAudible(about frame: Int) -> Bool { frame - lastAudible < Self.past }

    /// Whether all that was played has died away.
    func isOver(at now: Instant) -> Bool {
        !isHeld && position(at: now) > end + Self.past * SpeechBands.frameLength
    }

    /// The levels of a frame.
    subscript(frame: Int) -> BandLevels {
        guard frame >= firstFrame, frame < end / SpeechBands.frameLength
        else { return BandLevels() }
        return BandLevels(ring[frame % ring.count]) * 0.5
    }

    /// Audio was sent that is played from an instant on.
    mutating func append(
        _ samples: UnsafeBufferPointer<Int16>, rate: SampleRate, playedFrom start: Instant
    ) {
        var bands = bands.take().flatMap { $0.rate == rate ? $0 : nil } ?? SpeechBands(rate: rate)
        // Silence lay between, or the frames of an odd rate have drifted.
        let place = position(at: start)
        if place >= end + SpeechBands.frameLength {
            let gap = (place - end) / SpeechBands.frameLength
            for _ in 0..<min(gap, ring.count) { append(BandLevels()) }
            if gap > ring.count {
                end = place / SpeechBands.frameLength * SpeechBands.frameLength
                firstFrame = end / SpeechBands.frameLength
            }
        }
        bands.process(samples) { append($0) }
        self.bands = bands
    }

    private mutating func append(_ levels: BandLevels) {
        let frame = end / SpeechBands.frameLength
        let steps = (levels * 2).clamped(
            lowerBound: SIMD8(repeating: 0), upperBound: SIMD8(repeating: 255))
        ring[frame % ring.count] = SIMD8<UInt8>(truncatingIfNeeded: SIMD8<Int32>(steps))
        if levels.max() > EchoPath.audible { lastAudible = frame }
        end += SpeechBands.frameLength
        firstFrame = max(firstFrame, frame + 1 - ring.count)
    }

    // MARK: Holding

    /// The client falls silent.
    mutating func hold(at now: Instant) { heldAt = max(0, position(at: now)) }

    /// Resumes the reply. The last samples that were sent, at 48 kHz, are sent again.
    mutating func goOn(with again: Int, at now: Instant) {
        guard heldAt != nil else { return }
        heldAt = nil
        let position = max(0, end - again)
        origin = now + .nanoseconds(-Int64(position) * 1_000_000 / 48)
        // Audio that was played before the hold is not heard any more.
        firstFrame = max(firstFrame, position / SpeechBands.frameLength)
    }

    /// Stops: audio after this instant will not be played.
    mutating func stop(at now: Instant) {
        let position = max(0, position(at: now))
        end = min(end, position)
        lastAudible = min(lastAudible, position / SpeechBands.frameLength)
        guard heldAt.take() != nil else { return }
        origin = now + .nanoseconds(-Int64(position) * 1_000_000 / 48)
    }
}
