// When reply audio may leave. Audio that is sent faster than it is played fills every buffer on the
// way, and an interruption then takes effect late. Audio that is sent exactly as it is played has a
// gap at every delay of the network. So audio is sent as it is played, with a bounded lead.
// PlayoutTimeline knows what was sent and heard.

/// Paces the audio that one client plays.
struct PlayoutPacer {
    /// How long audio is gathered before it is sent: fewer, larger messages inside the lead.
    static let quantum = Duration.milliseconds(100)

    /// How far the rest of a reply is sent ahead of its playing. 20 s: 1.3 MB of base64, and far
    /// below the limit of an output queue.
    static let mostAhead = Duration.seconds(20)
    /// How much of this lead is sent at once: encoding a second takes some milliseconds.
    private static let share = Duration.seconds(1)

    /// Time by which audio is sent ahead of its playing.
    let lead: Duration
    /// When a client that plays at once will have played everything sent so far.
    private(set) var playedOut: Instant?

    /// - Parameter lead: at least one quantum, or nothing could ever be gathered.
    init(lead: Duration) { self.lead = max(lead, Self.quantum) }

    /// How much audio may be sent now, in whole milliseconds.
    /// - Parameter sendsAhead: whether the rest of a reply is sent as it is made.
    func allowance(at now: Instant, sendsAhead: Bool = false) -> Int {
        if sendsAhead {
            let ahead = playedOut.map { max(.zero, $0 - now) } ?? .zero
            return max(0, min(Self.share, Self.mostAhead - ahead).wholeMilliseconds)
        }
        guard let playedOut, playedOut > now else { return lead.wholeMilliseconds }
        return max(0, (lead - (playedOut - now)).wholeMilliseconds)
    }

    /// Audio of this many milliseconds has been sent.
    mutating func handleSent(milliseconds: Int, at now: Instant) {
        playedOut = max(playedOut ?? now, now) + .milliseconds(milliseconds)
    }

    /// Handles a client that has fallen silent and dropped the audio that it had not played.
    mutating func handleSilenced(at now: Instant) {
        guard let before = playedOut else { return }
        playedOut = min(before, now)
    }

    /// Takes back the last samples that were sent, at 48 kHz: they did not reach the client, which
    /// plays the rest.
    mutating func handleRewound(samples: Int) {
        guard let before = playedOut else { return }
        let (nanoseconds, isFar) = samples.multipliedReportingOverflow(by: 1_000_000)
        guard !isFar else { return }
        playedOut = before + .nanoseconds(-(nanoseconds / 48))
    }

    /// Handles a client that plays on. It has this many samples, at 48 kHz, that it has not played.
    mutating func handleContinued(samples: Int, at now: Instant) {
        playedOut = now + .samples(samples)
    }

    /// When the next quantum may be sent, always after `now`: at once, if it is due already.
    /// - Parameter sendsAhead: whether the rest of a reply is sent as it is made.
    func nextSend(after now: Instant, sendsAhead: Bool = false) -> Instant {
        // One nanosecond later than now, because a deadline that is not after now never comes.
        let earliest = Instant(nanoseconds: now.nanoseconds + 1)
        guard let playedOut else { return earliest }
        let lead = sendsAhead ? Self.mostAhead : lead
        return max(playedOut + (Self.quantum - lead), earliest)
    }
}
