// The child processes of the harness: each is pinned to a core, and ends with this process. What a
// child wrote to its standard error, and how it ended, can be kept for the report of a failure.

import CLinux
import Foundation

/// A child process that is pinned to a core. It is terminated when the object is freed.
final class PinnedProcess {
    private let process = Process()
    /// Its end and its last words; nil unless asked for. It outlives this object.
    let record: ProcessRecord?
    /// Its standard output, if asked for.
    let output: FileHandle?
    /// Its standard input, if its output was asked for.
    let input: FileHandle?

    var identifier: Int32 { process.processIdentifier }
    var isRunning: Bool { process.isRunning }

    /// Starts a program.
    /// - Parameters:
    ///   - core: the core that it is pinned to; nil: none.
    ///   - isTalking: whether its input and output are pipes; otherwise both are /dev/null.
    ///   - name: its name in a record of what it writes to its standard error; nil: it writes to
    ///     this process's.
    init(
        _ command: [String], core: Int?, isTalking: Bool = false, recordedAs name: String? = nil
    ) throws(LoadFailure) {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
        // The child is terminated even when this process is killed.
        process.arguments =
            [
                "-c", core.map { "\($0)" } ?? "0-1023", "/usr/bin/setpriv", "--pdeathsig", "TERM",
            ] + command
        if isTalking {
            let (incoming, outgoing) = (Pipe(), Pipe())
            process.standardOutput = incoming
            process.standardInput = outgoing
            output = incoming.fileHandleForReading
            input = outgoing.fileHandleForWriting
        } else {
            process.standardOutput = FileHandle.nullDevice
            process.standardInput = FileHandle.nullDevice
            (output, input) = (nil, nil)
        }
        if let name {
            record = try ProcessRecord(of: process, name: name)
        } else {
            record = nil
        }
        do { try process.run() } catch {
            throw LoadFailure("cannot start \(command[0]): \(error.localizedDescription)")
        }
    }

    deinit {
        if process.isRunning {
            record?.wasEndedHere = true
            process.terminate()
            process.waitUntilExit()
        }
    }

    /// Waits until it has ended by itself.
    func awaitEnd() { process.waitUntilExit() }

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

/// What is left of a child process: how it ended, and the end of what it wrote to its standard error.
final class ProcessRecord {
    /// Its name in reports.
    let name: String
    private let process: Process
    private let errors: FileHandle
    /// Whether this process ended it, which says nothing about it.
    fileprivate(set) var wasEndedHere = false

    /// Bytes and lines of its last words: a traceback's end has the error.
    private static let wordBytes: UInt64 = 2_048
    private static let wordLines = 3

    /// Sends the standard error of a process that is about to start to a file without a name.
    fileprivate init(of process: Process, name: String) throws(LoadFailure) {
        self.process = process
        self.name = name
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("parley-load-XXXXXX").path
        var template = Array(path.utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0, unlink(template) == 0, fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
        else { throw .system("a file for the errors of \(name)") }
        errors = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        process.standardError = errors
    }

    /// How it ended by itself, and its last words; nil when it runs and has said nothing.
    var account: String? {
        let parts = [ending, lastWords.map { "it wrote: \($0)" }].compactMap { $0 }
        return parts.isEmpty ? nil : "\(name) " + parts.joined(separator: ", ")
    }

    private var ending: String? {
        guard !wasEndedHere, !process.isRunning, process.processIdentifier > 0 else { return nil }
        let status = process.terminationStatus
        return process.terminationReason == .exit
            ? "ended with status \(status)" : "was ended by signal \(status)"
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
