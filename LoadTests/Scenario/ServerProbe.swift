// What a server's processes take, read from outside: /proc, and /metrics where there is one. When
// that is read is ScenarioRun's. A process that has ended is a failure, never a zero: a server that
// crashed would otherwise look thrifty.

import CLinux
import Codec

/// Reads a target's memory, processor time and ledger.
struct ServerProbe {
    private let target: Target

    init(_ target: Target) { self.target = target }

    /// Whether there is anything to read.
    var isPossible: Bool { !target.processes.isEmpty }

    /// The processes at this moment; nil when none is known.
    /// - Throws: `LoadFailure` when one has ended.
    func sample(sessions: Int) throws(LoadFailure) -> ServerSample? {
        guard isPossible else { return nil }
        var sample = ServerSample(
            sessions: sessions, anonymousBytes: 0, residentBytes: 0,
            ledgerBytes: try sum(of: "parley_ledger_total_bytes"),
            allocatedBytes: try sum(of: "parley_allocated_memory_bytes"), cpuSeconds: cpuSeconds)
        for process in target.processes {
            let map = try MemoryMap(of: process)
            sample.anonymousBytes += map.anonymous
            sample.residentBytes += map.resident
        }
        return sample
    }

    /// What the processes have spent of the processor so far, in seconds.
    var cpuSeconds: Double {
        target.processes.reduce(0) { $0 + Double(processorNanoseconds(of: $1)) / 1e9 }
    }

    /// Resident bytes, read cheaply; nil when no process is known or one has ended.
    var residentBytes: Int? {
        guard isPossible else { return nil }
        var sum = 0
        for process in target.processes {
            guard let text = readSmallFile("/proc/\(process)/statm"),
                let pages = text.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
            else { return nil }
            sum += pages * 4_096
        }
        return sum
    }

    /// The sum of a metric in the servers' /metrics; nil where they have none of the name.
    private func sum(of metric: String) throws(LoadFailure) -> Double? {
        guard target.hasMetrics else { return nil }
        var sum: Double?
        for url in target.urls {
            let page = try MetricsPage(of: ServerAddress(url))
            guard page.has(metric) else { continue }
            sum = (sum ?? 0) + page.sum(of: metric)
        }
        return sum
    }
}
