// The process's environment as Swift values. The readers decide which variables they use.

import CLinux
import Glibc

/// An environment variable's value, or nil when it is unset.
func environmentValue(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
}

/// The whole environment.
func environmentValues() -> [String: String] {
    var values: [String: String] = [:]
    var entry = parley_environment()
    while let text = entry?.pointee {
        let halves = String(cString: text).split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        if halves.count == 2 { values[String(halves[0])] = String(halves[1]) }
        entry = entry?.successor()
    }
    return values
}
