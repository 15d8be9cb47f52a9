// The checksums of a folder of models, in the file SHA256SUMS that `make models` writes there and
// `sha256sum --check` reads. They are compared before a model is loaded, because sherpa-onnx and
// the dynamic linker do not survive every damaged file: sherpa-onnx ends the process for a table of
// tokens that it cannot read, and a library that was cut off ends it with SIGBUS.
//
// Invariant: a folder without the file is not checked; with it, a file that it does not list is
// damaged.

import CLinux
import Codec

/// What the files of a folder of models are to be.
struct ModelChecksums {
    /// Name of the file in the folder.
    static let fileName = "SHA256SUMS"
    /// Bytes of that file that are read: 64 KiB, hundreds of lines.
    private static let maxBytes = 64 << 10
    /// Bytes of a model that are read at once. 256 KiB, beyond which larger pieces are no faster.
    private static let pieceBytes = 256 << 10

    /// A file as the kernel describes it: a file that is written anew, or replaced, has another.
    struct Stamp: Equatable {
        private let device: UInt64
        private let inode: UInt64
        private let bytes: Int64
        private let changedSeconds: Int
        private let changedNanoseconds: Int

        /// nil where there is no such file.
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

    /// What is wrong with a file.
    enum Fault: Equatable {
        /// It is not what it is to be, or is no file.
        case damaged(String)
        /// It cannot be read now, as where the process has no descriptor left; this may pass.
        case unreadable(String)
    }

    private let directory: String
    private var digests: [Substring: SHA256Digest] = [:]
    /// Whether the file of checksums was read.
    private var isReadable = true

    /// Reads the checksums of a folder; nil where it has none.
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
            // Two spaces, or a space and `*`, stand before the path.
            digests[fields[1].drop { $0 == " " || $0 == "*" }] = digest
        }
    }

    /// What is wrong with the first of some paths in the folder that is not as it should be; nil:
    /// all are.
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

    /// What came of reading a file.
    private enum Reading { case whole, noFile, failed }

    /// Hands a file over in pieces. A pipe or a device is no file: reading it might never end.
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
