// Why a load test could not be carried out, and what else the whole generator shares: its clock,
// its error output. What a server did wrong under load is a result, not a failure:
// see ScenarioResult.

import CLinux
import Codec

/// A load test that could not be carried out.
struct LoadFailure: Error {
    /// One line for a person. Words of a server in it are visible.
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

/// Writes a line about progress or a failure as it is; the table alone goes to standard output.
func printError(_ text: String) {
    var text = text
    text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
}
