// Decides when the reads that may be batched are reported. Pure: the time is an argument. EpollIO asks it.
//
// The wake-up is a large part of what a packet of audio costs. 290 speaking sessions take a fifth less
// processor time when the packets of 5 ms come together (LoadTests/results/speech.md has the command).
// Network cards hold their interrupts back for the same reason.
//
//   prompt ── `busyReports` within one hold ──▶ held ── fewer than half of that in a hold ──▶ prompt

import Session

/// When the next reads that may be batched are reported.
struct ReadBatching {
    /// How late a report may come: 5 ms, a quarter of a packet. That is little beside the 32 ms after which
    /// voice activity looks at the audio.
    static let hold = Duration.milliseconds(5)
    /// The reports within one hold from which on there is something to save. 8: 32 sessions that speak. Below
    /// that each packet is reported as it comes.
    static let busyReports = 8

    /// When the next reports come. Nil means as soon as there are any.
    private(set) var due: Instant?
    /// The reports since then are counted, while they come at once.
    private var countBegan = Instant(nanoseconds: 0)
    private var count = 0

    /// Reports have come, or were looked for in vain.
    /// - Parameters:
    ///   - reports: how many.
    ///   - leavesOthers: whether there was no room for others: they come with the next wait.
    mutating func handle(_ reports: Int, leavesOthers: Bool, at now: Instant) {
        guard !leavesOthers else {
            due = now
            return
        }
        if due != nil {
            due = reports < Self.busyReports / 2 ? nil : now + Self.hold
            (countBegan, count) = (now, 0)
            return
        }
        if now >= countBegan + Self.hold { (countBegan, count) = (now, 0) }
        count += reports
        if count >= Self.busyReports { due = now + Self.hold }
    }
}
