// The machine and the command, as reports name them.

import CLinux
import Foundation

/// This machine, and this program.
enum Machine {
    /// Processors, memory and system, as "2 × Intel(R) Xeon(R) Processor, 24 GiB, Linux 6.1".
    static var description: String {
        let processors = max(1, ProcessInfo.processInfo.activeProcessorCount)
        let model = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8))?
            .split(separator: "\n").first { $0.hasPrefix("model name") }?
            .split(separator: ":").last.map { $0.drop { $0 == " " } }
        let gibibytes = Double(ProcessInfo.processInfo.physicalMemory) / Double(1 << 30)
        let kernel =
            readSmallFile("/proc/sys/kernel/osrelease")?
            .split(separator: "\n").first.map(String.init) ?? ""
        return "\(processors) × \(model.map(String.init) ?? "processor"), "
            + "\(Int(gibibytes.rounded())) GiB, Linux \(kernel)"
    }

    /// The current time, ISO 8601 in UTC.
    static var date: String { Date().formatted(.iso8601) }

    /// The file of this program, which is also started as its child processes.
    static var executable: String {
        let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return path ?? CommandLine.arguments[0]
    }

    /// The number of processors.
    static var processors: Int { max(1, ProcessInfo.processInfo.activeProcessorCount) }

    /// A word, quoted for a shell where needed.
    static func shellWord(_ word: String) -> String {
        let plain = word.utf8.allSatisfy {
            UInt8(ascii: "-")...UInt8(ascii: ":") ~= $0
                || UInt8(ascii: "@")...UInt8(ascii: "z") ~= $0
                || $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: ",")
        }
        return plain && !word.isEmpty
            ? word : "'" + word.replacingOccurrences(of: "'", with: "'\\''") + "'"
    }
}
