// Estimates how much of a reply the user of `parley talk` has heard: the audio that came, less the
// audio that cannot have been played yet. The time is an argument. TalkConversation reports the
// result to the server with `output_audio_buffer.played`.

import Codec

/// Follows the playing of reply audio that is played as soon as it comes.
struct PlaybackEstimate {
    private let rate: SampleRate
    private var itemID = ""
    /// Samples of the item that came.
    private var received = 0
    /// When they will have been played, in seconds.
    private(set) var playedOut = 0.0
    /// The item that came last, and how much of it was played or will be: not what was waiting when
    /// playing stopped. Nil until an item came.
    private(set) var kept: ResumePlace.Played?

    init(rate: SampleRate) { self.rate = rate }

    /// Takes samples of an item. `end` is how far they reach in its audio.
    mutating func handle(_ samples: Int, of itemID: String, end: Int, at now: Double) {
        self.itemID = itemID
        received = end
        kept = .init(itemID: itemID, milliseconds: rate.milliseconds(ofSamples: end))
        playedOut = max(playedOut, now) + Double(samples) / Double(rate.hertz)
    }

    /// Stops playing. Returns the item that was heard last, and how many milliseconds of it were
    /// heard, or nil where none is being played.
    mutating func stop(at now: Double) -> (itemID: String, milliseconds: Int)? {
        guard playedOut > now else { return nil }
        let ahead = Int((playedOut - now) * Double(rate.hertz))
        playedOut = now
        let heard = rate.milliseconds(ofSamples: max(0, received - ahead))
        kept = .init(itemID: itemID, milliseconds: heard)
        return (itemID, heard)
    }
}
