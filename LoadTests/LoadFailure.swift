// The error of a load test that could not be carried out, and the generator's clock and error
// output. A server's errors under load are results, not failures: see ScenarioResult.

import CLinux
import Codec

/// A load test that could not be carried out.
struct LoadFailure: Error {
    /// One line for the operator. Control characters from a server are made visible.
    let reason: String

    init(_ reason: String) { self.reason = reason.visible() }

    /// The last system call's `errno` in words.
    static func system(_ call: String) -> LoadFailure {
        LoadFailure("\(call): \(String(cString: strerror(parley_errno())))")
    }
}

/// Nanoseconds on the machine's monotonic clock.
func monotonicNanoseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
}

/// Writes progress or a failure to standard error. Standard output has only the table.
func printError(_ text: String) {
    var text = text
    text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
}
