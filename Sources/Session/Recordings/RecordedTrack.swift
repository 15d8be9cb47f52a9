// Places one side's audio on the timeline of its recording, in order and without overlaps: runs, and
// what lies between them. It knows no file and no codec; Records/Recordings encodes and writes.
//
// A run says when it ended: when it came from the client, or when it had been played. A network
// delivers late and then all at once. So a run that comes late is no pause by itself: the track waits
// for what follows, and a pause is as long as the earliest of that allows:
//
//      came     ──1──2───3──────────────────4567──8───      3 to 7 were delayed: no pause
//      came     ──1──2───3──────────────────4───5───6       a pause before 4
//
// Invariant: the pieces cover the timeline from 0 to `position` without gaps.

import Codec

/// One side of a recording.
public struct RecordedTrack: Sendable {
    /// A piece of the track.
    public enum Piece: Equatable, Sendable {
        /// Silence of this many samples at 48 kHz.
        case silence(samples: Int)
        /// Lost audio of this many samples at 48 kHz.
        case loss(samples: Int)
        /// A packet of Opus, or samples.
        case audio(AudioFormat, ArraySlice<UInt8>, samples: Int)
    }

    /// Pauses that are shorter are not made. 60 ms: three packets, below the jitter of a good
    /// connection, and not heard as a shift between the two sides.
    public static let tolerance = SampleRate.hz48000.samples(inMilliseconds: 60)
    /// How long a track of a client waits to tell a delay from a pause.
    public static let jitter = Duration.seconds(1)

    /// Samples at 48 kHz from the start of the recording to the end of the last piece.
    public private(set) var position = 0
    private let start: Instant
    private let jitter: Duration
    private var waiting: [(run: RecordedAudio.Run, bytes: ArraySlice<UInt8>)] = []
    private var head = 0
    /// The pieces that come before the run at the head have been taken.
    private var isPlaced = false
    /// Runs before this index follow one another without a pause, as the last of them has shown.
    private var closed = 0

    /// - Parameters:
    ///   - start: when the recording began.
    ///   - jitter: how long a run may be late before that is a pause; zero: runs are never late.
    public init(start: Instant, jitter: Duration) {
        self.start = start
        self.jitter = jitter
    }

    /// Takes more of the side's audio.
    public mutating func append(_ audio: RecordedAudio) {
        if head > 0 {
            waiting.removeFirst(head)
            closed = max(0, closed - head)
            head = 0
        }
        var offset = 0
        for run in audio.runs {
            let end = offset + Int(run.byteCount)
            waiting.append((run, audio.bytes[offset..<end]))
            offset = end
        }
    }

    /// The next piece, or nil where it is not known before more has come, or more time has passed.
    /// - Parameter now: the time of the shard, or nil where nothing more comes.
    public mutating func next(at now: Instant?) -> Piece? {
        guard head < waiting.count else { return nil }
        let (run, bytes) = waiting[head]
        if !isPlaced {
            if head >= closed, lateness(of: run, after: position) > Self.tolerance,
                let pause = pause(before: run)
            {
                // Before the end of the wait, a later run may show that there is no pause.
                if let now, now < run.end + jitter { return nil }
                position += pause
                return .silence(samples: pause)
            }
            isPlaced = true
            let lost = min(Int(run.lost), max(0, lateness(of: run, after: position) + Self.slack))
            if lost > 0 {
                // Where less was lost than the numbers say, `closed` counted on too much.
                if lost < Int(run.lost) { closed = 0 }
                position += lost
                return .loss(samples: lost)
            }
        }
        isPlaced = false
        head += 1
        position += Int(run.samples)
        return .audio(run.format, bytes, samples: Int(run.samples))
    }

    /// The most by which a gap in the numbers may run ahead of the time that has passed: 1 s.
    private static let slack = SampleRate.hz48000.hertz

    /// How much later a run ended than if it had followed the track's position, in samples.
    /// Lost packets before it take their time, too.
    private func lateness(of run: RecordedAudio.Run, after position: Int) -> Int {
        let (scaled, isFar) = (run.end - start).wholeNanoseconds.multipliedReportingOverflow(by: 48)
        guard !isFar else { return 0 }
        return Int(scaled / 1_000_000) - position - Int(run.samples)
    }

    /// The pause before the run at the head: the least lateness, without lost audio, of this run
    /// and of those that came within the jitter after it. Nil means that one of these runs shows
    /// that there is no pause.
    private mutating func pause(before first: RecordedAudio.Run) -> Int? {
        var end = position
        var least = Int.max
        for index in head..<waiting.count {
            let run = waiting[index].run
            guard run.end <= first.end + jitter else { break }
            end += Int(run.lost)
            least = min(least, lateness(of: run, after: end))
            end += Int(run.samples)
            guard least > Self.tolerance else {
                // The runs up to this one need not be examined again.
                closed = index + 1
                return nil
            }
        }
        return least
    }
}
