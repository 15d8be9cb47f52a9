// Reads the memory and processor time of a server's processes from /proc, and its ledger from
// /metrics. ScenarioRun decides when. A process that has ended is a failure, so that a crashed
// server is not reported with zero memory.

import CLinux
import Codec

/// Reads a target's memory, processor time and ledger.
struct ServerProbe {
    private let target: Target

    init(_ target: Target) { self.target = target }

    /// Whether the target's processes are known.
    var isPossible: Bool { !target.processes.isEmpty }

    /// The current state of the processes; nil when none is known.
    /// - Throws: `LoadFailure` when one has ended.
    func sample(sessions: Int) throws(LoadFailure) -> ServerSample? {
        guard isPossible else { return nil }
        var sample = ServerSample(
            sessions: sessions, anonymousBytes: 0, residentBytes: 0,
            ledgerBytes: try sum(of: "parley_ledger_total_bytes"),
            allocatedBytes: try sum(of: "parley_allocated_memory_bytes"), parts: try parts(),
            cpuSeconds: cpuSeconds)
        for process in target.processes {
            let map = try MemoryMap(of: process)
            sample.anonymousBytes += map.anonymous
            sample.residentBytes += map.resident
        }
        return sample
    }

    /// Processor time of the processes so far, in seconds.
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

    /// The metrics of a server that is one process and has some; nil otherwise.
    func metrics() throws(LoadFailure) -> MetricsPage? {
        guard target.hasMetrics, target.urls.count == 1 else { return nil }
        return try MetricsPage(of: ServerAddress(target.urls[0]))
    }

    /// The servers' memory by what holds it; nil where none says.
    private func parts() throws(LoadFailure) -> [String: Double]? {
        guard target.hasMetrics else { return nil }
        var sums: [String: Double] = [:]
        for url in target.urls {
            let page = try MetricsPage(of: ServerAddress(url))
            sums.merge(page.samples(of: "parley_memory_bytes", by: "part"), uniquingKeysWith: +)
        }
        return sums.isEmpty ? nil : sums
    }

    /// The sum of a metric over the servers' /metrics; nil where none has it.
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
