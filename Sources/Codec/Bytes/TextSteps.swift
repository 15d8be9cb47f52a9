// Counts the steps of code that reads text, so that tests can compare the work for a text with the
// work for one that is four times as long. A step is a byte, a character or a word that is looked at.
// The time of a test would depend on the machine; the steps do not.
//
// Invariant: only a debug build counts, and only within `counting`. A release build has no code here.

/// The steps of the code that reads text.
public enum TextSteps {
    #if DEBUG
    /// Holds the count of one measurement. One thread changes it at a time: the measured code does
    /// not suspend.
    @usableFromInline final class Count: @unchecked Sendable {
        var steps = 0
    }

    @TaskLocal private static var count: Count?

    @usableFromInline static func add(_ steps: Int) { count?.steps += steps }

    /// The steps of some work.
    package static func counting(_ work: () throws -> Void) rethrows -> Int {
        let count = Count()
        try $count.withValue(count) { try work() }
        return count.steps
    }
    #endif

    /// Counts the pieces of text that are looked at.
    @inlinable public static func note(_ steps: Int = 1) {
        #if DEBUG
        add(steps)
        #endif
    }
}
