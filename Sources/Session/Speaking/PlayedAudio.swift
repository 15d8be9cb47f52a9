// A returning client's report of the audio that it has. PlayoutTimeline and VoiceSession+Away act
// on it.
//
// Invariant: the length is within a range in which no sum of samples overflows.

/// How much of an item's audio a client has played, or keeps to play.
public struct PlayedAudio: Equatable, Sendable {
    /// The longest: 24 days. More than any item, and far from overflow in sample arithmetic.
    public static let longest = Int(Int32.max)

    /// The item.
    public let itemID: String
    /// Milliseconds of its audio, 0…`longest`.
    public let milliseconds: Int

    /// The length is brought into its range.
    public init(itemID: String, milliseconds: Int) {
        self.itemID = itemID
        self.milliseconds = max(0, min(Self.longest, milliseconds))
    }
}
