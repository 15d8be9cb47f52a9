// The processors that this process may use: those of its affinity mask (taskset, cpusets of a container),
// and no more than the quota of its control groups. More event loops than that would wait for each other.

import CLinux
import Glibc

/// The share of the machine's processors.
enum ProcessorShare {
    /// Whole processors, at least 1; a part of one counts as one.
    static let cores: Int = {
        let online = max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        let allowed = parley_allowed_processors()
        let cores = allowed > 0 ? min(online, Int(allowed)) : online
        return quota().map { max(1, min(cores, $0)) } ?? cores
    }()

    /// Whole processors of the tightest quota, rounded up; nil where there is none.
    private static func quota() -> Int? {
        let groups = ProcessMemory.content(of: "/proc/self/cgroup")
        return ControlGroup.processorFiles(of: groups).compactMap { path in
            let period =
                path.hasSuffix("quota_us")
                ? ProcessMemory.content(of: path.replacing("quota_us", with: "period_us")) : ""
            return cores(ofQuota: ProcessMemory.content(of: path), period: period)
        }.min()
    }

    /// The processors of `QUOTA PERIOD` (cgroup v2), or of the two in files of their own (v1), where -1
    /// and `max` are no limit.
    static func cores(ofQuota text: String, period: String = "") -> Int? {
        let words = text.split { $0.isWhitespace } + period.split { $0.isWhitespace }
        guard words.count == 2, let quota = Int(words[0]), let period = Int(words[1]), quota > 0,
            period > 0
        else { return nil }
        return (quota - 1) / period + 1
    }
}
