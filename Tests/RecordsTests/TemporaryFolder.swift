// A folder for the files of one test.

import Glibc

/// A folder that is removed with all its files at the end.
final class TemporaryFolder {
    let path: String

    init() {
        var template = Array("/tmp/parley-records-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { preconditionFailure("no temporary folder") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        guard let folder = opendir(path) else { return }
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            unlink(file(name))
        }
        closedir(folder)
        rmdir(path)
    }

    /// Path of a file in it.
    func file(_ name: String = "records.db") -> String { "\(path)/\(name)" }
}

/// Writes a text file.
/// - Returns: whether it was written.
func writeText(_ path: String, _ text: String) -> Bool {
    guard let file = fopen(path, "w") else { return false }
    return fputs(text, file) >= 0 && fclose(file) == 0
}
