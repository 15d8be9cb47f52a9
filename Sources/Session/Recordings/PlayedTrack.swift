// The agent's side of a recording: what was played of its replies, and when. PlayoutTimeline says
// what was sent and how much of it was heard. A run that was sent waits here until it was heard.
// Audio that was cut off never gets into the recording.
//
// Invariant: runs wait in the order of their sending, and only audio that was heard is recorded. A
// packet of Opus is recorded as a whole: when it was heard to its last sample, or when the reply is
// cut inside it.

import Codec

/// Audio of the replies that was heard. Confined to its shard's thread.
final class PlayedTrack {
    private struct Waiting {
        /// Where it begins on the playout timeline, in samples at 48 kHz.
        var start: Int
        var run: SentRun
        var end: Int { start + run.length }
    }

    /// Tells the user that the session is recorded. Nil means that nothing does.
    var beep: RecordingBeep?
    private var waiting: [Waiting] = []
    private var played = RecordedAudio()
    /// A position that had not been heard before, and when that was known.
    private var known: (position: Int, at: Instant)?

    /// Whether there is nothing to take, now or later.
    var isEmpty: Bool { waiting.isEmpty && played.isEmpty }
    /// Bytes of audio that was heard, and of what describes it.
    var size: Int { played.size }
    /// Bytes on the heap. The payloads that wait are shared with the timeline, which keeps most of
    /// them, too; they count here.
    var heldBytes: Int {
        let own = beep == nil ? 0 : RecordingBeep.objectBytes
        return waiting.reduce(own + waiting.heapBytes + played.heldBytes) {
            $0 + $1.run.payload.heapBytes
        }
    }

    /// Notes a run that was sent.
    /// - Parameter start: where it begins on the playout timeline.
    func noteSent(_ run: SentRun, at start: Int) {
        waiting.append(Waiting(start: start, run: run))
    }

    /// Takes the audio that has been heard.
    func take() -> RecordedAudio {
        defer { played = RecordedAudio() }
        return played
    }

    /// Notes that the timeline was heard to a position.
    /// - Parameters:
    ///   - isCut: whether the audio that waits is never heard.
    ///   - playedAt: when a position was played, by the client's reports and the pace of sending.
    func settle(
        heard: Int, isCut: Bool = false, at now: Instant, _ playedAt: (Int) -> Instant
    ) {
        var done = 0
        while done < waiting.count, waiting[done].end <= heard {
            record(waiting[done].run, end: time(of: waiting[done].end, at: now, playedAt))
            done += 1
        }
        waiting.removeFirst(done)
        if let first = waiting.first, first.start < heard {
            recordBeginning(of: first, to: heard, isCut: isCut, time(of: heard, at: now, playedAt))
        }
        known = (heard, now)
        if isCut { forget() }
    }

    /// Takes back audio from a position on: it is sent again, or will not be heard.
    func rewind(to position: Int) {
        waiting.removeAll { $0.start >= position }
        known = nil
    }

    /// Forgets the audio that was sent so far: no more of it is heard.
    func forget() {
        waiting = []
        known = nil
    }

    /// Records the part of a run that was heard. Samples are divided, a packet of Opus cannot be.
    private func recordBeginning(
        of first: Waiting, to heard: Int, isCut: Bool, _ end: Instant
    ) {
        guard first.run.format != .opus else {
            if isCut { record(first.run, end: end) }
            return
        }
        var rest = first.run
        rest.removeFirst(heard - first.start)
        let bytes = first.run.payload.count - rest.payload.count
        guard bytes > 0, rest.length < first.run.length else { return }
        var beginning = first.run
        beginning.payload.removeLast(rest.payload.count)
        beginning.length -= rest.length
        record(beginning, end: end)
        waiting[0] = Waiting(start: first.end - rest.length, run: rest)
    }

    private func record(_ run: SentRun, end: Instant) {
        played.append(
            run.payload.span.bytes, format: run.format, samples: run.length, end: end)
    }

    /// When a position was played: not before the last known time, and not after now.
    private func time(of position: Int, at now: Instant, _ playedAt: (Int) -> Instant) -> Instant {
        var time = playedAt(position)
        if let known, position > known.position {
            time = max(time, known.at + .samples(position - known.position))
        }
        return min(time, now)
    }
}

extension Duration {
    /// How long this many samples at 48 kHz last.
    static func samples(_ count: Int) -> Duration {
        let (nanoseconds, isFar) = count.multipliedReportingOverflow(by: 1_000_000)
        return .nanoseconds(isFar ? .max : nanoseconds / 48)
    }
}
