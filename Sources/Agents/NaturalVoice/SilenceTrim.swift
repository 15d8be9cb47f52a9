// Cuts the silence around a clause: the natural voice begins each clause with 0.3 s of it and ends with
// 0.5 s, which would make every reply late and every pause long. A value: samples in, samples out.

/// The sound of one clause without most of the silence at its ends.
struct SilenceTrim {
    /// A block is loud from this level on. 0.003 of full scale: the silence has less than a thousandth
    /// of that.
    private static let threshold: Float = 0.003
    /// Samples of a block, at 24 kHz: 5 ms.
    private static let block = 120
    /// Samples that stay before the first loud block: 30 ms, for a soft beginning.
    private static let lead = 720
    /// Samples over which each end fades: 10 ms.
    private static let fade = 240

    /// Samples that stay after the last loud block.
    private let tail: Int
    private var held: [Float] = []
    /// How many of `held` have been looked at.
    private var examined = 0
    /// The end of the last loud block in `held`. Nil before the first.
    private var loudEnd: Int?

    /// - Parameter mark: the clause's last character. The pauses are those that the voice makes at
    ///   such marks inside of a clause: 120 ms at a comma, 150 at a colon or semicolon, else 300.
    init(mark: Character?) {
        tail =
            switch mark {
            case ",": 2_880
            case ";", ":": 3_600
            default: 7_200
            }
    }

    /// Takes samples, and returns those that are certain to be heard.
    mutating func append(_ samples: some Collection<Float>) -> ArraySlice<Float> {
        held += samples
        while examined + Self.block <= held.count {
            let block = held[examined..<(examined + Self.block)]
            examined += Self.block
            let energy = block.reduce(0) { $0 + $1 * $1 }
            if energy > Self.threshold * Self.threshold * Float(Self.block) { noteLoudBlock() }
        }
        guard let loudEnd else {
            drop(max(0, examined - Self.lead))
            return []
        }
        return take(max(0, min(held.count, loudEnd + tail) - Self.fade))
    }

    /// The rest, at the end of the clause.
    mutating func finish() -> ArraySlice<Float> {
        guard let loudEnd else { return [] }
        let end = min(held.count, loudEnd + tail)
        let faded = min(Self.fade, end)
        for index in 0..<faded { held[end - 1 - index] *= Float(index) / Float(faded) }
        return take(end)
    }

    private mutating func noteLoudBlock() {
        if loudEnd == nil {
            drop(max(0, examined - Self.block - Self.lead))
            let faded = min(Self.fade, held.count)
            for index in 0..<faded { held[index] *= Float(index) / Float(faded) }
        }
        loudEnd = examined
    }

    private mutating func drop(_ count: Int) {
        held.removeFirst(count)
        examined -= count
        if let end = loudEnd { loudEnd = end - count }
    }

    private mutating func take(_ count: Int) -> ArraySlice<Float> {
        let taken = held[..<count]
        held = Array(held[count...])
        examined -= count
        if let end = loudEnd { loudEnd = end - count }
        return taken
    }
}
