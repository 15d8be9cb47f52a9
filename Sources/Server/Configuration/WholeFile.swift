// Files that are read whole at the start, and how large each kind may be.
//
// Invariant: a limit bounds what is read, and another how long a pipe is waited for. A path may
// therefore name anything that can be read, such as a pipe of a shell (`--config <(…)`), /dev/null
// or /dev/stdin. The first limit refuses /dev/zero, and the second a silent pipe.

import CLinux
import Glibc

/// Why a file could not be read.
package enum WholeFileError: Error, Equatable, CustomStringConvertible, Sendable {
    /// A call failed with this `errno`; a directory is `EISDIR`.
    case system(errno: Int32)
    /// It has more bytes than this limit.
    case tooLarge(maxBytes: Int)
    /// It was to be text, and is in another encoding, or damaged.
    case notUTF8

    /// The objection to the file at a path, as one clause.
    package func problem(of path: String) -> String {
        switch self {
        case .system(let errno): "cannot read \(path): \(String(cString: strerror(errno)))"
        case .tooLarge(let maxBytes): "\(path) is larger than \(maxBytes) bytes"
        case .notUTF8: "\(path) is not UTF-8 text"
        }
    }

    /// The clause without a path.
    package var description: String { problem(of: "the file") }
}

/// Reads whole files.
package enum WholeFile {
    /// The limit of files that people write: configuration, certificates, keys. 1 MiB: a bundle of
    /// all public authorities takes a fifth of that.
    package static let maxTextBytes = 1 << 20

    /// How long a pipe may be silent. 10 s: a command that writes a configuration takes less, and
    /// the start and a reload do not hang.
    private static let pipeMilliseconds: Int32 = 10_000

    /// Reads a file to its end.
    /// - Parameter maxBytes: the most that it may have.
    package static func read(
        _ path: String, maxBytes: Int = maxTextBytes
    ) throws(WholeFileError) -> [UInt8] {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { throw .system(errno: parley_errno()) }
        defer { close(descriptor) }
        var content: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while content.count <= maxBytes {
            // Qualified: this type has a `read` of its own.
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count > 0 {
                content += buffer[..<count]
            } else if count < 0, parley_errno() != EAGAIN {
                throw .system(errno: parley_errno())
            } else if count == 0, !content.isEmpty || !isPipe(descriptor) {
                return content
            } else if try !waitsForMore(descriptor) {
                return content
            }
        }
        throw .tooLarge(maxBytes: maxBytes)
    }

    /// Reads a file that people write, without the byte order mark that some editors put before it.
    package static func readText(_ path: String) throws(WholeFileError) -> String {
        let content = withoutMark(try read(path))
        guard let text = String(validating: content, as: UTF8.self) else { throw .notUTF8 }
        return text
    }

    /// The bytes behind a byte order mark (U+FEFF in UTF-8), or all of them. A parser would take the
    /// mark as part of the first word.
    static func withoutMark(_ bytes: [UInt8]) -> [UInt8] {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        return bytes.starts(with: mark) ? Array(bytes.dropFirst(mark.count)) : bytes
    }

    /// Waits for a pipe to be written to; false: its writer has closed it.
    private static func waitsForMore(_ descriptor: Int32) throws(WholeFileError) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&waiting, 1, pipeMilliseconds) > 0 else { throw .system(errno: ETIMEDOUT) }
        return Int32(waiting.revents) & POLLIN != 0
    }

    private static func isPipe(_ descriptor: Int32) -> Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && Int32(status.st_mode) & S_IFMT == S_IFIFO
    }
}
