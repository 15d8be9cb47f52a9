// Writing whole files: recordings. Reading is Server's WholeFile.

import Glibc

/// A file that could not be written.
struct FileFailure: Error {
    /// `errno` of the call that failed.
    let errno: Int32
}

/// Writes a file; an existing one is replaced.
func writeWholeFile(_ path: String, _ content: [UInt8]) throws(FileFailure) {
    guard let file = fopen(path, "we") else { throw FileFailure(errno: errno) }
    let written = fwrite(content, 1, content.count, file)
    // Closing flushes, and a full disk may show only then.
    guard fclose(file) == 0, written == content.count else { throw FileFailure(errno: errno) }
}
