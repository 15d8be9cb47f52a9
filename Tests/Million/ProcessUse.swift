// What the process has used of the machine, as the kernel counts it.

import Glibc

/// A look at the process's memory, in bytes.
struct MemoryUse {
    /// Pages that are its own and written to (smaps_rollup, Anonymous: the memory
    /// that it asked for, without written pages of its binary).
    let anonymousBytes: Int
    /// Looks now.
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

/// Times of this thread.
enum ThreadClock {
    /// CPU that this thread has used, in nanoseconds. Other programs do not count.
    static var nanoseconds: Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}
