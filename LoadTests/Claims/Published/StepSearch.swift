// The search for the largest load that a server carries. Loads are the steps of a geometric scale;
// the search first goes up or down by wide strides until one step holds and a higher one does not,
// then halves the distance. A server that does not hold a step is taken not to hold a higher one.

import Foundation

/// Finds the largest step that holds, and asks for few.
struct StepSearch {
    /// The scale's first load, and the factor from each step to the next.
    static let first = 25.0
    static let factor = pow(2, 0.125)
    /// The highest step: 25 × 2^6, a load of 1,600.
    static let highest = 48

    /// The load of a step; step 0 is `first`.
    static func load(of step: Int) -> Int { Int((first * pow(factor, Double(step))).rounded()) }

    /// The largest step known to hold; -1: none yet.
    private(set) var held = -1
    /// The smallest step known not to hold.
    private var failed = StepSearch.highest + 1
    private var current: Int
    private var stride: Int
    private let resolution: Int

    /// - Parameters:
    ///   - start: the first step to try, 0…`highest`.
    ///   - stride: the distance of the first strides, in steps.
    ///   - resolution: the distance to a step that does not hold at which the search ends, in steps.
    /// - Precondition: stride and resolution are positive.
    init(from start: Int, stride: Int, resolution: Int = 1) {
        precondition(stride > 0 && resolution > 0 && (0...Self.highest).contains(start))
        self.resolution = resolution
        current = start
        self.stride = stride
    }

    /// The step to try; nil at the end of the search.
    var next: Int? {
        let isOpen = failed - held > resolution || held < 0 && failed > 0
        return isOpen ? current : nil
    }

    /// Takes the result of the step that was tried.
    mutating func take(holds: Bool) {
        if holds { held = current } else { failed = current }
        if held < 0 {
            // The lowest step has to be tried as well.
            current = max(0, failed - stride)
            stride *= 2
        } else if failed > Self.highest {
            current = min(Self.highest, held + stride)
            stride *= 2
        } else {
            current = (held + failed) / 2
        }
    }
}
