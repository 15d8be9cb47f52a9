// The path from the client's loudspeaker to its microphone. It learns how late and how loud the
// reply comes back, and judges how much of the input is more than that echo.
//
// The delay is the one at which the levels of the input rise and fall with the reply's. It is the
// best correlation over all delays, of a second of audible reply, if no other is close and it stays
// the best. The speech of two people can correlate for half a second by chance, and a user with
// headphones must never count as an echo. So the delay is dropped as soon as it does not hold. The
// gain of each band follows the input from there on. Input that is clearly louder than the echo can
// be, in bands and moments in which the reply is soft, is the user's. Speech has enough of those
// even where it is the softer voice.
//
// Invariant: before a delay is learned, no input counts as echo.

/// The learned echo of one session.
struct EchoPath {
    /// Delays that are tried, in frames of 16 ms: up to 624 ms.
    static let delays = 40
    /// A reply below this many decibels leaves no echo.
    static let audible: Float = 30

    // The figures below were found on recordings and synthetic speech (LoadTests/RESULTS.md).

    /// Correlation that a delay is believed at.
    private static let minCorrelation: Float = 0.85
    /// By how much the correlation must exceed the correlations at all delays that are not
    /// neighbours.
    private static let minProminence: Float = 0.2
    /// Frames in a row in which all these conditions must hold. 20: 320 ms.
    private static let minFramesInARow = 20
    /// Correlation below which a delay is forgotten.
    private static let leastCorrelation: Float = 0.7
    /// By how much another delay must be better than the accepted one.
    private static let lead: Float = 0.05
    /// Audible frames that must have been compared before the first of them. 25: 400 ms.
    private static let minFrames: Float = 25
    /// The decay of earlier frames, per frame: they count for about a second.
    private static let memory: Float = 59.0 / 60
    /// Decibels over the noise from which on a band is heard.
    private static let overNoise: Float = 6
    /// Decibels over the predicted echo that are not counted.
    private static let margin: Float = 4
    /// Mean excess in decibels up to which everything is echo.
    private static let maxExcess: Float = 1.5
    /// Share of the last frames in the excess.
    private static let excessMemory: Float = 0.35
    /// Decibels by which a gain follows the input in a frame.
    private static let gainStep: Float = 0.3

    /// Frames by which the echo is late, if that is known.
    private(set) var delay: Int?
    /// The candidate delay, and for how many frames it has been the best.
    private var candidate: (delay: Int, frames: Int) = (0, 0)
    private var gains: BandLevels?
    private var noise: BandLevels?
    private var excess: Float = 0

    /// Forgets the frames that were last compared, but not the learned path.
    mutating func rest() { excess = 0 }

    /// Takes a frame of the input.
    /// - Parameters:
    ///   - frame: where the reply's playing stands.
    /// - Returns: whether the reply's echo, and nothing else, is heard in it.
    mutating func handle(
        _ input: BandLevels, at frame: Int, of reply: PlayedLevels, _ evidence: inout EchoEvidence
    ) -> Bool {
        let noise = trackNoise(input)
        if reply.isAudible(about: frame) {
            let heard = (input - (noise + Self.overNoise)).clamped(
                lowerBound: BandLevels(), upperBound: SIMD8(repeating: 40))
            evidence.add(heard, at: frame, of: reply, memory: Self.memory)
            if evidence.audibleFrames >= Self.minFrames { learnDelay(from: evidence) }
        }
        return explain(input, noise: noise, at: frame, of: reply)
    }

    /// The noise of the room: down at once, up by little.
    private mutating func trackNoise(_ input: BandLevels) -> BandLevels {
        let before = noise ?? pointwiseMin(input, SIMD8(repeating: 35))
        let change = input - before
        let rise = pointwiseMin(change, SIMD8(repeating: 10)) * 0.01
        let now = before + rise.replacing(with: change * 0.3, where: change .< 0)
        noise = now
        return now
    }

    private mutating func learnDelay(from evidence: EchoEvidence) {
        if let delay, evidence.correlation(at: delay) < Self.leastCorrelation { forget() }
        let (best, correlation) = evidence.best
        let isLikely =
            correlation > Self.minCorrelation
            && evidence.prominence(of: best) >= Self.minProminence
        // The best frame alternates where the true delay lies between two frames.
        let isSame = abs(best - candidate.delay) <= 1
        candidate = (best, isLikely ? (isSame ? candidate.frames + 1 : 1) : 0)
        guard candidate.frames >= Self.minFramesInARow, best != delay else { return }
        if let delay, correlation <= evidence.correlation(at: delay) + Self.lead { return }
        delay = best
        gains = nil
    }

    private mutating func forget() {
        delay = nil
        gains = nil
    }

    private mutating func explain(
        _ input: BandLevels, noise: BandLevels, at frame: Int, of reply: PlayedLevels
    ) -> Bool {
        guard let delay else { return false }
        let played = frame - delay
        let near = pointwiseMax(reply[played], reply[played - 1])
        // A room, and a clock that is not quite ours, smear it.
        let smeared = pointwiseMax(near, pointwiseMax(reply[played + 1], reply[played - 2]))
        let isHeard = input .> noise + (Self.overNoise + 3)
        let isPlayed = near .> SIMD8(repeating: Self.audible + 10)
        let difference = input - near
        guard let gains else {
            self.gains = Self.firstGain(of: difference, where: isHeard .& isPlayed)
            return false
        }
        let predicted = smeared + gains
        let floor = noise + Self.overNoise
        let over = input - pointwiseMax(predicted, floor) - Self.margin
        let counted = over.clamped(lowerBound: BandLevels(), upperBound: SIMD8(repeating: 12))
        excess = excess * Self.excessMemory + counted.sum() / 8 * (1 - Self.excessMemory)
        // An echo that is expected and not heard has become softer.
        let says = isPlayed .& (isHeard .| (near + gains .> noise + (Self.overNoise + 3)))
        let error = (difference - gains) * (1 / 6)
        let step = error.clamped(
            lowerBound: SIMD8(repeating: -1), upperBound: SIMD8(repeating: 1))
        self.gains = gains + (step * Self.gainStep).replacing(with: 0, where: .!says)
        return excess < Self.maxExcess && any(predicted .> floor)
    }

    /// The same for all bands to begin with: the mean of those that are heard.
    private static func firstGain(
        of difference: BandLevels, where isHeard: SIMDMask<SIMD8<Int32>>
    ) -> BandLevels? {
        let count = (0..<8).count { isHeard[$0] }
        guard count >= 3 else { return nil }
        return BandLevels(
            repeating: difference.replacing(with: 0, where: .!isHeard).sum() / Float(count))
    }
}

/// Sums from which the correlation of input and reply follows, for every delay.
struct EchoEvidence {
    private struct Sums {
        var reply: Float = 0
        var replySquared: Float = 0
        var product: Float = 0
    }

    /// Frames by which a room smears an echo.
    private static let neighbours = 6

    private var sums: [Sums]
    private var input: Float = 0
    private var inputSquared: Float = 0
    private var weight: Float = 0
    /// Frames in which something was heard.
    private(set) var audibleFrames: Float = 0

    /// Bytes on the heap.
    var heldBytes: Int { sums.heapBytes }

    init(delays: Int) { sums = Array(repeating: Sums(), count: delays) }

    /// Adds a frame of the input, in decibels over its noise.
    mutating func add(
        _ heard: BandLevels, at frame: Int, of reply: PlayedLevels, memory: Float
    ) {
        let scale: Float = 1.0 / 8
        weight = weight * memory + 1
        input = input * memory + heard.sum() * scale
        inputSquared = inputSquared * memory + (heard * heard).sum() * scale
        audibleFrames = audibleFrames * memory + (heard.sum() * scale > 3 ? 1 : 0)
        for delay in sums.indices {
            let played = (reply[frame - delay] - EchoPath.audible).clamped(
                lowerBound: BandLevels(), upperBound: SIMD8(repeating: 50))
            sums[delay].reply = sums[delay].reply * memory + played.sum() * scale
            sums[delay].replySquared =
                sums[delay].replySquared * memory + (played * played).sum() * scale
            sums[delay].product = sums[delay].product * memory + (played * heard).sum() * scale
        }
    }

    /// How well the input follows the reply at a delay, −1…1.
    func correlation(at delay: Int) -> Float {
        guard weight > 0 else { return 0 }
        let mean = input / weight
        let replyMean = sums[delay].reply / weight
        let variance = inputSquared / weight - mean * mean
        let replyVariance = sums[delay].replySquared / weight - replyMean * replyMean
        let covariance = sums[delay].product / weight - mean * replyMean
        return covariance / max(1e-3, variance * replyVariance).squareRoot()
    }

    /// By how much it does so better at a delay than at any that is further than 100 ms from it.
    func prominence(of delay: Int) -> Float {
        var next: Float = -1
        for other in sums.indices where abs(other - delay) > Self.neighbours {
            next = max(next, correlation(at: other))
        }
        return correlation(at: delay) - next
    }

    /// The delay at which it does so best.
    var best: (delay: Int, correlation: Float) {
        var best = (delay: 0, correlation: correlation(at: 0))
        for delay in sums.indices.dropFirst() {
            let correlation = correlation(at: delay)
            if correlation > best.correlation { best = (delay, correlation) }
        }
        return best
    }
}
