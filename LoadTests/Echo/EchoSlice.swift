// One peer's turn in the benchmark: its length, and what was counted in it. The clock of a turn is
// here, so that the echoes and the handshakes are counted alike.

import CLinux
import Glibc

/// What one peer did in one turn.
struct SliceResult: Codable {
    /// Messages echoed, or connections opened and closed.
    var count = 0
    /// How long that took.
    var nanoseconds: Int64 = 0
    /// How long the generator waited meanwhile. Near zero, the generator was what set the pace.
    var waitedNanoseconds: Int64 = 0
    /// What the server's process, all its threads, spent of its core.
    var serverNanoseconds: Int64 = 0

    /// Messages, or connections, per second.
    var rate: Double { Double(count) * 1e9 / Double(nanoseconds) }
    /// Microseconds of the server's core for each.
    var serverMicroseconds: Double { Double(serverNanoseconds) / 1_000 / Double(count) }
    /// The share of the time in which the generator had something to do.
    var generatorShare: Double { 1 - Double(waitedNanoseconds) / Double(nanoseconds) }
}

/// A turn in progress: a beginning that is not counted, then the part that is.
struct SliceClock {
    private let process: Int32
    private let countFrom: Int64
    private let end: Int64
    private var isCounting = false
    private var begin: Int64 = 0
    private var serverAtBegin: Int64 = 0
    /// Whether the turn is over.
    private(set) var isOver = false
    /// What was counted; complete once the turn is over.
    private(set) var result = SliceResult()

    /// Begins a turn.
    /// - Parameters:
    ///   - process: the server's.
    ///   - warmUp: what is not counted, in milliseconds.
    ///   - length: what is counted, in milliseconds.
    init(process: Int32, warmUp: Int, length: Int) {
        self.process = process
        countFrom = monotonicNanoseconds() + Int64(warmUp) * 1_000_000
        end = countFrom + Int64(length) * 1_000_000
    }

    /// Counts messages.
    @inline(__always)
    mutating func add(_ count: Int) { if isCounting { result.count += count } }

    /// Polls until a socket can be read, and counts the wait. `poll` does not take the socket's
    /// lock, which the server would find taken when it sends.
    /// - Throws: `LoadFailure` after 20 s: 5,000 connections take the slowest peer less than one.
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

    /// Takes note of the time.
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

/// What all threads of a process have spent of the processor: the first number of their
/// /proc/PID/task/TID/schedstat, which is exact where /proc/PID/stat counts ticks of 10 ms.
func processorNanoseconds(of process: Int32) -> Int64 {
    let path = "/proc/\(process)/task"
    guard let folder = opendir(path) else { return 0 }
    defer { closedir(folder) }
    var sum: Int64 = 0
    while let entry = readdir(folder) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
        // ".." has a schedstat as well: that of the first thread, once more.
        guard !name.hasPrefix("."), let text = readSmallFile("\(path)/\(name)/schedstat")
        else { continue }
        sum += text.split(separator: " ").first.flatMap { Int64($0) } ?? 0
    }
    return sum
}

/// The first 8 KiB of a file of /proc; nil when it is gone.
func readSmallFile(_ path: String) -> String? {
    let descriptor = parley_open_readonly(path)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 8192)
    let count = read(descriptor, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
}
