// The checksums of a folder of models: the file SHA256SUMS, which the set-up scripts write and
// `sha256sum --check` reads. They are compared before a model is loaded, because a damaged file may
// end the process: a truncated library raises SIGBUS.
//
// A folder without SHA256SUMS is not checked. In a folder with it, a file that it does not list
// counts as damaged.

import CLinux
import Codec

/// The expected checksums of the files in a folder of models.
struct ModelChecksums {
    /// Name of the file in the folder.
    static let fileName = "SHA256SUMS"
    /// Most bytes of that file that are read: 64 KiB, hundreds of lines.
    private static let maxBytes = 64 << 10
    /// Bytes of a model that are read at once. 256 KiB: larger pieces are no faster.
    private static let pieceBytes = 256 << 10

    /// Identifies one state of a file: it changes when the file is written or replaced.
    struct Stamp: Equatable {
        private let device: UInt64
        private let inode: UInt64
        private let bytes: Int64
        private let changedSeconds: Int
        private let changedNanoseconds: Int

        /// Nil when there is no such file.
        init?(path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
            bytes = Int64(status.st_size)
            changedSeconds = status.st_ctim.tv_sec
            changedNanoseconds = status.st_ctim.tv_nsec
        }
    }

    /// The fault of a file.
    enum Fault: Equatable {
        /// The file is missing, is not a regular file, or has another checksum.
        case damaged(String)
        /// The file cannot be read now, for example because the process has no descriptor left. A
        /// later attempt may succeed.
        case unreadable(String)
    }

    private let directory: String
    private var digests: [Substring: SHA256Digest] = [:]
    /// Whether SHA256SUMS could be read.
    private var isReadable = true

    /// Reads the checksums of a folder; nil when it has no SHA256SUMS.
    init?(directory: String) {
        self.directory = directory
        var content: [UInt8] = []
        let outcome = Self.read("\(directory)/\(Self.fileName)") { piece in
            content += piece.prefix(Self.maxBytes - content.count)
        }
        switch outcome {
        case .whole: break
        case .noFile: return nil
        case .failed: isReadable = false
        }
        for line in String(decoding: content, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ", maxSplits: 1)
            guard fields.count == 2, let digest = SHA256Digest(hexadecimal: fields[0])
            else { continue }
            // Two spaces, or a space and `*`, precede the path.
            digests[fields[1].drop { $0 == " " || $0 == "*" }] = digest
        }
    }

    /// The first fault among some files of the folder; nil when there is none.
    func firstFault(of paths: [String]) -> Fault? {
        guard isReadable else { return .unreadable(Self.fileName) }
        for path in paths {
            guard let wanted = digests[path[...]] else { return .damaged(path) }
            var hasher = SHA256Hasher()
            let outcome = Self.read("\(directory)/\(path)") { hasher.append($0) }
            let found = hasher.finished()
            if outcome == .failed { return .unreadable(path) }
            if outcome == .noFile || found != wanted { return .damaged(path) }
        }
        return nil
    }

    /// The outcome of reading a file.
    private enum Reading { case whole, noFile, failed }

    /// Reads a file in pieces. A pipe or a device counts as missing: reading it might never end.
    private static func read(
        _ path: String, _ body: (UnsafeRawBufferPointer) -> Void
    ) -> Reading {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { return parley_errno() == ENOENT ? .noFile : .failed }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return .failed }
        guard Int32(status.st_mode) & S_IFMT == S_IFREG else { return .noFile }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceBytes, alignment: 16)
        defer { buffer.deallocate() }
        while true {
            let count = CLinux.read(descriptor, buffer.baseAddress, buffer.count)
            guard count > 0 else { return count == 0 ? .whole : .failed }
            body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }
}
