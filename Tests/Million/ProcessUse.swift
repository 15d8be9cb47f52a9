// Memory and CPU of the process, as counted by the kernel.

import Glibc

/// The memory of the process at one time, in bytes.
struct MemoryUse {
    /// Anonymous pages that were written (Anonymous in smaps_rollup): allocated memory, without
    /// written pages of the binary.
    let anonymousBytes: Int
    /// Measures the current use.
    init() {
        anonymousBytes = Self.anonymous()
    }

    private static func anonymous() -> Int {
        guard let file = fopen("/proc/self/smaps_rollup", "r") else { return 0 }
        defer { fclose(file) }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 512) { line in
            let name = "Anonymous:"
            while fgets(line.baseAddress, 512, file) != nil {
                let text = String(cString: line.baseAddress!)
                guard text.hasPrefix(name) else { continue }
                let number = text.dropFirst(name.count).split(separator: " ").first
                return (number.flatMap { Int($0) } ?? 0) * 1_024
            }
            return 0
        }
    }
}

/// CPU time of this thread.
enum ThreadClock {
    /// CPU time that this thread has used, in nanoseconds. Other programs do not affect it.
    static var nanoseconds: Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}
