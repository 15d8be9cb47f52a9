// Small files of models, read whole: tokens and tables.

import CLinux

/// Reads files of models.
enum ModelFile {
    /// The content of a file.
    /// - Returns: nil where it cannot be read, is no regular file, or has more than `most` bytes.
    static func bytes(_ path: String, atMost most: Int) -> [UInt8]? {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, Int32(status.st_mode) & S_IFMT == S_IFREG,
            status.st_size <= most
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        var filled = 0
        while filled < bytes.count {
            let count = bytes.withUnsafeMutableBytes { buffer in
                read(descriptor, buffer.baseAddress! + filled, buffer.count - filled)
            }
            guard count > 0 else { return nil }
            filled += count
        }
        return bytes
    }
}
