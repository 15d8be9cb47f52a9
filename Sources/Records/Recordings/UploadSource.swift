// The content of a file while it is sent. It is read and not mapped: a disk that fails is a failed
// attempt.

import Codec
import Glibc

/// Why a file cannot be sent.
enum UploadSourceError: Error {
    /// It was removed, and is not to be sent any more.
    case gone
    /// It waits for another attempt.
    case unreadable(String)
}

/// An open file. Confined to one thread.
final class UploadSource {
    /// Its length.
    let size: Int
    /// The digest of all of it.
    private(set) var digest = SHA256Digest(of: "")
    private let descriptor: Int32
    private var sent = 0

    /// Opens a file, and reads it to its end for its digest.
    init(_ path: String) throws(UploadSourceError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        var status = stat()
        let isOpen = descriptor >= 0 && fstat(descriptor, &status) == 0
        let code = errno
        size = Int(status.st_size)
        guard isOpen else { throw Self.error(code) }
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 1)
        defer { room.deallocate() }
        var hasher = SHA256Hasher()
        while sent < size {
            guard let count = read(into: room), count > 0 else {
                throw .unreadable("it cannot be read")
            }
            hasher.append(UnsafeRawBufferPointer(rebasing: room[..<count]))
        }
        sent = 0
        digest = hasher.finished()
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Looks whether a file is there.
    static func check(_ path: String) throws(UploadSourceError) {
        guard access(path, F_OK) == 0 else { throw error(errno) }
    }

    private static func error(_ code: Int32) -> UploadSourceError {
        code == ENOENT ? .gone : .unreadable(String(cString: strerror(code)))
    }

    /// Sets where the next piece begins, in bytes from the beginning.
    func seek(to offset: Int) { sent = offset }

    /// Reads more, or returns nil where the source cannot be read.
    func read(into room: UnsafeMutableRawBufferPointer) -> Int? {
        let wanted = min(room.count, size - sent)
        let count = pread(descriptor, room.baseAddress, wanted, off_t(sent))
        guard count >= 0 else { return nil }
        sent += count
        return count
    }
}
