// The pieces in which a clause becomes sound. The first piece is short, so that it is heard soon;
// later ones are longer, because each costs the margins at its ends besides. A value without state.
//
// The decoder sees 10 frames to either side of a frame. With this margin, the joined pieces equal
// the sound of the whole clause, and no fading is needed.

/// A piece of a clause.
struct DecodingWindow: Equatable {
    /// The frames of the sound that the caller needs.
    var frames: Range<Int>
    /// The frames that the decoder needs for it.
    var input: Range<Int>
}

/// The pieces of a clause, in order.
struct DecodingWindows: Sequence, IteratorProtocol {
    /// Frames of the first window. 16: 186 ms of sound, about 22 ms of work.
    static let firstFrames = 16
    /// Frames of the longest window. 128: 1.5 s of sound, about 100 ms of work, after which another
    /// session's job may run, and a cancellation takes effect.
    static let maxFrames = 128
    /// Frames that the decoder looks back and ahead.
    static let margin = 10

    private let count: Int
    private var start = 0
    private var step = Self.firstFrames

    /// - Parameter frames: of the clause.
    init(frames: Int) { count = Swift.max(0, frames) }

    mutating func next() -> DecodingWindow? {
        guard start < count else { return nil }
        // A short rest joins the window before it: alone it would cost twice its margin.
        let isLast = count - start <= step + Self.margin
        let end = isLast ? count : start + step
        let window = DecodingWindow(
            frames: start..<end,
            input: Swift.max(0, start - Self.margin)..<Swift.min(count, end + Self.margin))
        start = end
        step = Swift.min(step * 2, Self.maxFrames)
        return window
    }
}
