// The names of a day's uploaded recordings: `DIR/2026-11-23/uploaded`, a line for each file. They
// tell a deletion which files are at the other server. One file a day takes no inode for each
// recording.
//
// Invariant: a name is in the list, and on the disk, before its file is read to be sent. A deletion
// removes files first and reads the lists then, so that it misses none. A name may be there twice, or
// be of a file that the other server has not taken.

import Glibc

/// The list of one day. Any thread, and any process: a line is appended in one write.
struct UploadList {
    /// Its name in the folder of the day.
    static let name = "uploaded"
    /// Bytes that are read at once.
    private static let blockBytes = 256 << 10
    /// Bytes of a line, at most: a name and a side have less.
    private static let maxLineBytes = 256

    private let day: String
    private let path: String

    /// - Parameter folder: the folder of recordings.
    init(of day: String, in folder: String) {
        self.day = day
        path = "\(folder)/\(day)/\(Self.name)"
    }

    /// Adds a file of the day.
    /// - Returns: whether the disk has it.
    func append(_ file: UploadedFile) -> Bool {
        let descriptor = open(
            path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        // It begins with the end of the line before, which a full disk may have cut off.
        let line = Array("\n\(file.line)".utf8)
        return write(descriptor, line, line.count) == line.count && fdatasync(descriptor) == 0
    }

    /// The files of some sessions.
    /// - Throws: where the list cannot be read.
    func files(of sessions: Set<String>) throws(RecordingFolderError) -> Set<UploadedFile> {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            guard errno == ENOENT || errno == ENOTDIR else {
                throw RecordingFolderError(path: path, code: errno, purpose: .read)
            }
            return []
        }
        defer { close(descriptor) }
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.blockBytes, alignment: 1)
        defer { room.deallocate() }
        var found = FoundNames(of: sessions, on: day)
        var filled = 0
        while true {
            let count = read(descriptor, room.baseAddress! + filled, room.count - filled)
            guard count >= 0 else {
                if errno == EINTR { continue }
                throw RecordingFolderError(path: path, code: errno, purpose: .read)
            }
            filled += count
            let block = UnsafeRawBufferPointer(rebasing: room[..<filled])
            let rest = found.take(linesOf: block)
            guard count > 0 else {
                found.take(rest)
                return found.files
            }
            // A longer line is no name.
            filled = rest.count <= Self.maxLineBytes ? rest.count : 0
            memmove(room.baseAddress!, rest.baseAddress!, filled)
        }
    }

    /// Removes the list.
    func remove() { unlink(path) }
}

/// The names that were found so far in a list that is being read.
private struct FoundNames {
    private(set) var files: Set<UploadedFile> = []
    private let sessions: Set<String>
    private let beginnings: [[UInt8]]
    private let day: String

    init(of sessions: Set<String>, on day: String) {
        self.sessions = sessions
        self.day = day
        beginnings = sessions.map { Array($0.utf8) }
    }

    /// Takes whole lines.
    /// - Returns: the bytes after the last whole line.
    mutating func take(linesOf block: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var rest = block
        while let start = rest.baseAddress, let end = memchr(start, 0x0A, rest.count) {
            let length = UnsafeRawPointer(end) - start
            take(UnsafeRawBufferPointer(rebasing: rest[..<length]))
            rest = UnsafeRawBufferPointer(rebasing: rest[(length + 1)...])
        }
        return rest
    }

    /// Takes a line. Most lines name other sessions. No string is made of these.
    mutating func take(_ line: UnsafeRawBufferPointer) {
        guard let start = line.baseAddress,
            beginnings.contains(where: {
                line.count > $0.count && memcmp(start, $0, $0.count) == 0
            }),
            let file = UploadedFile(String(decoding: line, as: UTF8.self), on: day),
            sessions.contains(file.sessionID)
        else { return }
        files.insert(file)
    }
}
