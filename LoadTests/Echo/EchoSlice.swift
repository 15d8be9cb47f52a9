// A slice: the time in which one peer is measured, and its result. Echoes and handshakes share the
// clock of a slice, so that both are counted in the same way.

import CLinux
import Glibc

/// The result of one slice.
struct SliceResult: Codable {
    /// Messages echoed, or connections opened and closed.
    var count = 0
    /// The length of the measured part.
    var nanoseconds: Int64 = 0
    /// How long the generator waited meanwhile. Near zero, the generator was the bottleneck.
    var waitedNanoseconds: Int64 = 0
    /// Processor time of the server's process, all its threads.
    var serverNanoseconds: Int64 = 0
    /// From the beginning of a connection to its answer, in milliseconds; nil for echoes.
    var p50: Double?
    var p99: Double?

    /// Messages, or connections, per second.
    var rate: Double { Double(count) * 1e9 / Double(nanoseconds) }
    /// Microseconds of the server's processor time for each.
    var serverMicroseconds: Double { Double(serverNanoseconds) / 1_000 / Double(count) }
    /// The share of the time in which the generator was busy.
    var generatorShare: Double { 1 - Double(waitedNanoseconds) / Double(nanoseconds) }
}

/// The clock of a slice in progress: a warm-up, then the measured part.
struct SliceClock {
    private let process: Int32
    private let countFrom: Int64
    private let end: Int64
    /// Whether this is the measured part.
    private(set) var isCounting = false
    private var begin: Int64 = 0
    private var serverAtBegin: Int64 = 0
    /// Whether the slice is over.
    private(set) var isOver = false
    /// The result; complete once the slice is over.
    private(set) var result = SliceResult()

    /// Begins a slice.
    /// - Parameters:
    ///   - process: the server's process.
    ///   - warmUp: milliseconds that are not measured.
    ///   - length: milliseconds that are measured.
    init(process: Int32, warmUp: Int, length: Int) {
        self.process = process
        countFrom = monotonicNanoseconds() + Int64(warmUp) * 1_000_000
        end = countFrom + Int64(length) * 1_000_000
    }

    /// Counts messages.
    @inline(__always)
    mutating func add(_ count: Int) { if isCounting { result.count += count } }

    /// Polls until a socket can be read, and counts the wait. `poll` does not take the socket's
    /// lock, for which the server would have to wait when it sends.
    /// - Throws: `LoadFailure` after 20 s. The slowest peer needs less than one second for 5,000
    ///   connections.
    @inline(never)
    mutating func waitToRead(_ descriptor: Int32) throws(LoadFailure) {
        let begin = monotonicNanoseconds()
        var now = begin
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while poll(&request, 1, 0) == 0 {
            let before = now
            now = monotonicNanoseconds()
            if isCounting { result.waitedNanoseconds += now - before }
            tick(now)
            guard now - begin < 20_000_000_000 else { throw LoadFailure("no answer for 20 s") }
        }
    }

    /// Begins or ends the measured part when its time has come.
    mutating func tick(_ now: Int64) {
        if isCounting {
            guard now >= end, !isOver else { return }
            isOver = true
            isCounting = false
            result.nanoseconds = now - begin
            result.serverNanoseconds = processorNanoseconds(of: process) - serverAtBegin
        } else if now >= countFrom, !isOver {
            isCounting = true
            serverAtBegin = processorNanoseconds(of: process)
            begin = monotonicNanoseconds()
        }
    }
}

/// Processor time of all threads of a process: the sum of the first numbers in
/// /proc/PID/task/TID/schedstat. It is exact, whereas /proc/PID/stat counts ticks of 10 ms.
func processorNanoseconds(of process: Int32) -> Int64 {
    let path = "/proc/\(process)/task"
    guard let folder = opendir(path) else { return 0 }
    defer { closedir(folder) }
    var sum: Int64 = 0
    while let entry = readdir(folder) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        // "..", too, has a schedstat, which repeats that of the first thread.
        guard !name.hasPrefix("."), let text = readSmallFile("\(path)/\(name)/schedstat")
        else { continue }
        sum += text.split(separator: " ").first.flatMap { Int64($0) } ?? 0
    }
    return sum
}

/// The first 8 KiB of a file; nil when it cannot be read.
func readSmallFile(_ path: String) -> String? {
    let descriptor = parley_open_readonly(path)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 8192)
    let count = read(descriptor, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
}
