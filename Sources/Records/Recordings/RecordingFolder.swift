// The folder of recordings, and what it holds:
//
//   DIR/2026-11-23/sess_AbC.user.opus          the user as heard
//   DIR/2026-11-23/sess_AbC.agent.opus         the agent as played
//   DIR/2026-11-23/sess_AbC-184512.user.opus   the session went on elsewhere, from 18:45:12 UTC on
//   DIR/2026-11-23/sess_AbD.user.opus.part     one that is still being written
//   DIR/2026-11-23/uploaded                    names of files that were sent elsewhere (UploadList)
//   DIR/erase/2026-11-23.sess_AbC.user         one that is to be deleted there (RecordingErasures)
//
// A file that is being written is locked (flock), so that a process that starts beside another
// leaves its files alone. Files and folders can be read by their owner only. A file with another
// form of name is not the folder's: it is neither counted, nor sent, nor removed.
//
// Invariant: a name is made of the server's own words and an id of letters, digits, _ and -. No two
// servers give different recordings the same name, because only the first one of a session has its id
// alone.

import Codec
import Glibc
import Synchronization

/// A folder on disk. Any thread.
final class RecordingFolder: Sendable {
    /// Recordings of one session with the same name, at most.
    private static let maxParts = 99

    /// Where it is.
    let path: String
    private let maxBytes: Int
    private let bytes = Atomic<Int>(0)

    /// - Parameter maxBytes: the most bytes of its files together. 0 sets no limit.
    /// - Throws: `RecordingFolderError` where the folder cannot be made or written to.
    init(_ path: String, maxBytes: Int) throws(RecordingFolderError) {
        self.path = path
        self.maxBytes = maxBytes
        guard mkdir(path, 0o700) == 0 || errno == EEXIST, access(path, W_OK | X_OK) == 0 else {
            throw RecordingFolderError(path: path, code: errno, purpose: .write)
        }
        recount()
    }

    /// Bytes of its files, as far as this process knows.
    var heldBytes: Int { max(0, bytes.load(ordering: .relaxed)) }

    /// Whether this many more bytes may be written.
    func hasRoom(for count: Int) -> Bool { maxBytes == 0 || heldBytes + count <= maxBytes }

    /// Files have grown, or shrunk where the number is negative.
    func note(_ change: Int) { bytes.add(change, ordering: .relaxed) }

    /// Other processes may have added and removed files: counts them again.
    func recount() {
        bytes.store(files().reduce(0) { $0 + $1.bytes }, ordering: .relaxed)
    }

    // MARK: Names

    /// The path of a new recording's files without track and ending; nil where none can be made.
    /// - Parameters:
    ///   - seconds: when the recording began, since 1970.
    ///   - isContinued: whether there may be other recordings of the session, also elsewhere.
    func beginRecording(of sessionID: String, at seconds: Int, isContinued: Bool) -> String? {
        guard RecordedFile.isName(sessionID), sessionID.utf8.count <= RecordedFile.maxIDBytes
        else { return nil }
        let day = "\(path)/\(Self.day(seconds))"
        guard mkdir(day, 0o700) == 0 || errno == EEXIST else { return nil }
        let name = "\(day)/\(sessionID)" + (isContinued ? "-\(Self.timeOfDay(seconds))" : "")
        for part in 1...Self.maxParts {
            let base = part == 1 ? name : "\(name)-\(part)"
            let isFree = RecordedFile.tracks.allSatisfy { track in
                [RecordedFile.ending, RecordedFile.partEnding].allSatisfy {
                    access("\(base).\(track)\($0)", F_OK) != 0
                }
            }
            if isFree { return base }
        }
        return nil
    }

    /// `2026-11-23`, in UTC.
    static func day(_ seconds: Int) -> String {
        String(Timestamp.text(milliseconds: seconds * 1_000).prefix(10))
    }

    /// `184512`, in UTC.
    private static func timeOfDay(_ seconds: Int) -> String {
        Timestamp.text(milliseconds: seconds * 1_000).dropFirst(11).prefix(8)
            .filter { $0 != ":" }
    }

    // MARK: Files

    /// All files of recordings, complete or not, in the order of their names.
    func files() -> [RecordedFile] { RecordedFile.all(in: path) }

    /// The complete file of a recording, if there is one.
    func completeFile(_ name: String, _ track: String) -> RecordedFile? {
        RecordedFile.complete(name, track, in: path)
    }

    /// The complete files of a session's recordings, in the order of their names.
    func completeFiles(of sessionID: String) -> [RecordedFile] {
        RecordedFile.all(in: path, of: [sessionID]).filter(\.isComplete)
    }

    /// The files of a session that are being written, or that a killed server has left.
    func unfinishedFiles(of sessionID: String) -> [RecordedFile] {
        RecordedFile.all(in: path, of: [sessionID]).filter { !$0.isComplete }
    }

    /// Removes a file.
    /// - Returns: 0, or `errno` where it is not removed.
    @discardableResult
    func remove(_ file: String) -> Int32 {
        var status = stat()
        guard lstat(file, &status) == 0, unlink(file) == 0 else { return errno }
        note(-Int(status.st_size))
        return 0
    }

    /// Removes complete files of recordings that began before a day, and the lists of their
    /// uploaded files.
    /// - Returns: the number of recordings whose files were removed.
    func removeRecordings(before day: String) -> Int {
        let old = files().filter { $0.isComplete && $0.day < day }
        for file in old { remove(file.path) }
        for found in RecordedFile.days(in: path) where found < day {
            UploadList(of: found, in: path).remove()
        }
        return old.count
    }

    /// Removes days before a day that have no files. Later ones may be about to get some.
    func removeEmptyDays(before day: String) {
        for found in RecordedFile.days(in: path) where found < day { rmdir("\(path)/\(found)") }
    }
}

/// Why a folder cannot be used.
public struct RecordingFolderError: Error, CustomStringConvertible, Sendable {
    enum Purpose: String {
        case read
        case write = "write to"
        case remove
    }

    let path: String
    let code: Int32
    let purpose: Purpose

    /// One clause.
    public var description: String {
        "recordings-folder: cannot \(purpose.rawValue) \(path): \(String(cString: strerror(code)))"
    }
}
