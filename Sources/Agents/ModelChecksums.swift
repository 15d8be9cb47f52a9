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

    private let directory: String
    private var digests: [Substring: SHA256Digest] = [:]

    /// Reads the checksums of a folder; nil where it has none.
    init?(directory: String) {
        self.directory = directory
        var content: [UInt8] = []
        let isRead = Self.read("\(directory)/\(Self.fileName)") { piece in
            content += piece.prefix(Self.maxBytes - content.count)
        }
        guard isRead else { return nil }
        for line in String(decoding: content, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ", maxSplits: 1)
            guard fields.count == 2, let digest = SHA256Digest(hexadecimal: fields[0])
            else { continue }
            // Two spaces, or a space and `*`, stand before the path.
            digests[fields[1].drop { $0 == " " || $0 == "*" }] = digest
        }
    }

    /// The first of some paths in the folder whose file is not what it is to be; nil: all are.
    func firstDamaged(of paths: [String]) -> String? {
        paths.first { path in
            guard let wanted = digests[path[...]] else { return true }
            var hasher = SHA256Hasher()
            let isRead = Self.read("\(directory)/\(path)") { hasher.append($0) }
            let found = hasher.finished()
            return !(isRead && found == wanted)
        }
    }

    /// Hands a file over in pieces.
    /// - Returns: whether it was read to its end.
    private static func read(
        _ path: String, _ body: (UnsafeRawBufferPointer) -> Void
    ) -> Bool {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceBytes, alignment: 16)
        defer { buffer.deallocate() }
        while true {
            let count = CLinux.read(descriptor, buffer.baseAddress, buffer.count)
            guard count > 0 else { return count == 0 }
            body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
    }
}
