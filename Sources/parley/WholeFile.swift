// Reading and writing whole files: configuration, recordings, weights. What is in them is their
// callers' business.

import CLinux
import Glibc

/// A file that could not be read or written.
struct FileFailure: Error {
    /// `errno` of the call that failed.
    let errno: Int32
}

/// Reads a file to its end; it need not be a regular file.
func readWholeFile(_ path: String) throws(FileFailure) -> [UInt8] {
    let descriptor = parley_open_readonly(path)
    guard descriptor >= 0 else { throw FileFailure(errno: errno) }
    defer { close(descriptor) }
    var content: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while true {
        let count = read(descriptor, &buffer, buffer.count)
        guard count >= 0 else { throw FileFailure(errno: errno) }
        if count == 0 { return content }
        content += buffer[..<count]
    }
}

/// Writes a file, in the place of one that is there.
func writeWholeFile(_ path: String, _ content: [UInt8]) throws(FileFailure) {
    guard let file = fopen(path, "we") else { throw FileFailure(errno: errno) }
    let written = fwrite(content, 1, content.count, file)
    // Closing flushes, and a full disk may show only then.
    guard fclose(file) == 0, written == content.count else { throw FileFailure(errno: errno) }
}
