// Which seeds a seeded test runs with.

import Foundation

/// Seeds for tests that draw what happens.
package enum Seeds {
    /// The seeds of a test, or only the one that `PARLEY_SEED` names (`make sim SEED=7`).
    package static func chosen(from standard: Range<UInt64>) -> [UInt64] {
        let given = ProcessInfo.processInfo.environment["PARLEY_SEED"]
        return given.flatMap(UInt64.init).map { [$0] } ?? Array(standard)
    }
}
