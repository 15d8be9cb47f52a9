// Writing whole files: recordings. Reading is Server's WholeFile.

import Glibc

/// Writes a file; an existing one is replaced. False where it could not be written.
func writeWholeFile(_ path: String, _ content: [UInt8]) -> Bool {
    guard let file = fopen(path, "we") else { return false }
    let written = fwrite(content, 1, content.count, file)
    // Closing flushes, and a full disk may show only then.
    return fclose(file) == 0 && written == content.count
}
