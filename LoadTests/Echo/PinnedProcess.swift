// The child processes of the harness: each can be pinned to a core, and ends with this process. A
// child's standard error, and how it ended, can be kept for the report of a failure.

import CLinux
import Foundation

/// A child process that can be pinned to a core. It is terminated when the object is freed.
final class PinnedProcess {
    private let process: SpawnedProcess
    /// Its end and its last words; nil unless asked for. It outlives this object.
    let record: ProcessRecord?
    /// Its standard output, if asked for.
    let output: FileHandle?
    /// Its standard input, if its output was asked for.
    let input: FileHandle?

    var identifier: Int32 { process.identifier }
    var isRunning: Bool { process.ending == nil }

    /// Starts a program.
    /// - Parameters:
    ///   - core: the core that it is pinned to. Nil means that it may use any.
    ///   - isTalking: whether its input and output are pipes; otherwise both are /dev/null.
    ///   - name: its name in a record of its standard error. Nil means that it writes to this
    ///     process's.
    init(
        _ command: [String], core: Int?, isTalking: Bool = false, recordedAs name: String? = nil
    ) throws(LoadFailure) {
        // The child is terminated even when this process is killed.
        let words =
            ["/usr/bin/taskset", "-c", core.map { "\($0)" } ?? "0-1023"]
            + ["/usr/bin/setpriv", "--pdeathsig", "TERM"] + command
        let errors = try name.map { _ throws(LoadFailure) in try Self.makeErrorFile() }
        let errorStream = errors.map { SpawnedProcess.Stream.descriptor($0.fileDescriptor) }
        if isTalking {
            let fromChild = try Self.makePipe()
            let toChild = try Self.makePipe()
            process = try SpawnedProcess(
                words, input: .descriptor(toChild.reading.fileDescriptor),
                output: .descriptor(fromChild.writing.fileDescriptor),
                errors: errorStream ?? .inherited)
            (output, input) = (fromChild.reading, toChild.writing)
        } else {
            process = try SpawnedProcess(
                words, input: .null, output: .null, errors: errorStream ?? .inherited)
            (output, input) = (nil, nil)
        }
        if let name, let errors {
            record = ProcessRecord(of: process, name: name, errors: errors)
        } else {
            record = nil
        }
    }

    deinit {
        guard isRunning else { return }
        record?.wasEndedHere = true
        process.terminate()
    }

    /// A pipe whose ends no other child inherits: it ends when its last descriptor is closed.
    private static func makePipe() throws(LoadFailure) -> (reading: FileHandle, writing: FileHandle)
    {
        var ends: [Int32] = [-1, -1]
        guard pipe2(&ends, O_CLOEXEC) == 0 else { throw .system("a pipe") }
        return (
            FileHandle(fileDescriptor: ends[0], closeOnDealloc: true),
            FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
        )
    }

    /// A file without a name.
    private static func makeErrorFile() throws(LoadFailure) -> FileHandle {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("parley-load-XXXXXX").path
        var template = Array(path.utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0, unlink(template) == 0, fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
        else { throw .system("a file for the errors of a program") }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Waits until it has ended by itself.
    /// - Parameter seconds: the longest wait; nil: without end.
    func awaitEnd(within seconds: Double? = nil) { process.awaitEnding(within: seconds) }

    /// Waits until it accepts connections.
    func awaitListening(on port: UInt16, name: String) throws(LoadFailure) {
        let target = EchoTarget(wire: .raw, port: port, process: identifier)
        let deadline = monotonicNanoseconds() + 30_000_000_000
        while monotonicNanoseconds() < deadline {
            guard isRunning else { break }
            if let descriptor = try? target.connect() {
                close(descriptor)
                // Another process may listen on the port; then this one is about to end.
                poll(nil, 0, 50)
                if isRunning { return }
            }
            poll(nil, 0, 50)
        }
        throw LoadFailure("\(name) does not listen on \(port): is it taken, or a part missing?")
    }

    /// Reads a line of its output; nil at the end, or when the time has passed.
    /// - Parameter seconds: the time for the whole line; nil: without end.
    func readLine(within seconds: Double? = nil) -> Data? {
        guard let output else { return nil }
        let deadline = seconds.map { monotonicNanoseconds() + Int64($0 * 1e9) }
        var line = Data()
        while true {
            if let deadline {
                var entry = pollfd(
                    fd: output.fileDescriptor, events: Int16(POLLIN), revents: 0)
                let left = max(0, deadline - monotonicNanoseconds())
                guard poll(&entry, 1, Int32(clamping: left / 1_000_000)) > 0 else { return nil }
            }
            guard let byte = try? output.read(upToCount: 1), let first = byte.first else {
                return nil
            }
            if first == UInt8(ascii: "\n") { return line }
            line.append(first)
        }
    }
}

/// The record of a child process: how it ended, and the end of its standard error.
final class ProcessRecord {
    /// Its name in reports.
    let name: String
    private let process: SpawnedProcess
    private let errors: FileHandle
    /// Whether this process ended it, which says nothing about it.
    fileprivate(set) var wasEndedHere = false

    /// Bytes and lines of its last words: a traceback's end has the error.
    private static let wordBytes: UInt64 = 2_048
    private static let wordLines = 3

    /// - Parameter errors: the file that its standard error goes to.
    fileprivate init(of process: SpawnedProcess, name: String, errors: FileHandle) {
        self.process = process
        self.name = name
        self.errors = errors
    }

    /// How it ended by itself, and its last words; nil when it runs and has said nothing.
    var account: String? {
        let ending = wasEndedHere ? nil : process.ending?.account
        let parts = [ending, lastWords.map { "it wrote: \($0)" }].compactMap { $0 }
        return parts.isEmpty ? nil : "\(name) " + parts.joined(separator: ", ")
    }

    private var lastWords: String? {
        guard let size = try? errors.seekToEnd(), size > 0,
            (try? errors.seek(toOffset: size - min(size, Self.wordBytes))) != nil,
            let data = try? errors.readToEnd()
        else { return nil }
        let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
            .map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
        return lines.isEmpty ? nil : lines.suffix(Self.wordLines).joined(separator: " / ")
    }
}
