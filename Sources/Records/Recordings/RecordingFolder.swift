// The folder of recordings, and what it holds:
//
//   DIR/2026-11-23/sess_AbC.user.opus        the user as heard
//   DIR/2026-11-23/sess_AbC.agent.opus       the agent as played
//   DIR/2026-11-23/sess_AbD.user.opus.part   one that is still being written
//
// A file that is being written is locked (flock), so that a process that starts beside another leaves
// its files alone. Files and folders can be read by their owner only.
//
// Invariant: a name is made of the server's own words and an id of letters, digits, _ and -.

import Glibc
import Synchronization

/// A folder on disk. Any thread.
final class RecordingFolder: Sendable {
    /// The ends of the names of a recording's files, and their tracks' names.
    static let tracks = ["user", "agent"]
    static let ending = ".opus"
    static let partEnding = ".opus.part"
    /// Recordings of one session in a day: it may go on in another process, or be recorded again.
    private static let maxParts = 99

    private let path: String
    private let maxBytes: Int
    private let bytes = Atomic<Int>(0)

    /// - Parameter maxBytes: what its files may have together; 0: no limit.
    /// - Throws: `RecordingFolderError` where the folder cannot be made or written to.
    init(_ path: String, maxBytes: Int) throws(RecordingFolderError) {
        self.path = path
        self.maxBytes = maxBytes
        guard mkdir(path, 0o700) == 0 || errno == EEXIST, access(path, W_OK | X_OK) == 0 else {
            throw RecordingFolderError(path: path, code: errno)
        }
        bytes.store(files().reduce(0) { $0 + $1.bytes }, ordering: .relaxed)
    }

    /// Bytes of its files, as far as this process knows.
    var heldBytes: Int { max(0, bytes.load(ordering: .relaxed)) }

    /// Whether so many more bytes may be written.
    func hasRoom(for count: Int) -> Bool { maxBytes == 0 || heldBytes + count <= maxBytes }

    /// Files have grown, or shrunk where the number is negative.
    func note(_ change: Int) { bytes.add(change, ordering: .relaxed) }

    /// Somebody else may have removed files: counts them again.
    func recount() { bytes.store(files().reduce(0) { $0 + $1.bytes }, ordering: .relaxed) }

    // MARK: Names

    /// The paths of a new recording's files without their ending, and the file of the first track,
    /// opened; nil where none can be made.
    /// - Parameter seconds: when the recording began, since 1970.
    func beginRecording(of sessionID: String, at seconds: Int) -> String? {
        let isName =
            !sessionID.isEmpty && sessionID.utf8.count <= 128
            && sessionID.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
        guard isName else { return nil }
        let day = "\(path)/\(Self.day(seconds))"
        guard mkdir(day, 0o700) == 0 || errno == EEXIST else { return nil }
        for part in 1...Self.maxParts {
            let base = part == 1 ? "\(day)/\(sessionID)" : "\(day)/\(sessionID)-\(part)"
            let isFree = Self.tracks.allSatisfy { track in
                [Self.ending, Self.partEnding].allSatisfy {
                    access("\(base).\(track)\($0)", F_OK) != 0
                }
            }
            if isFree { return base }
        }
        return nil
    }

    /// `2026-11-23`, in UTC.
    static func day(_ seconds: Int) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1_900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
    }

    /// The part of a path below the folder.
    func name(of file: String) -> String { String(file.dropFirst(path.count + 1)) }

    // MARK: Files

    /// A file of the folder.
    struct File {
        let path: String
        let bytes: Int
    }

    /// All files of recordings, complete or not, in the order of their names.
    func files() -> [File] {
        Self.names(in: path).compactMap { file in
            var status = stat()
            guard lstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
            return File(path: file, bytes: Int(status.st_size))
        }
    }

    /// The paths of all recordings' files in a folder.
    static func names(in path: String) -> [String] {
        entries(of: path).flatMap { day in
            entries(of: "\(path)/\(day)").filter {
                $0.hasSuffix(ending) || $0.hasSuffix(partEnding)
            }.map { "\(path)/\(day)/\($0)" }
        }
    }

    /// Removes a file, and its day where it was the last.
    func remove(_ file: String) {
        var status = stat()
        if lstat(file, &status) == 0, unlink(file) == 0 { note(-Int(status.st_size)) }
        if let slash = file.lastIndex(of: "/") { rmdir(String(file[..<slash])) }
    }

    private static func entries(of folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names.sorted()
    }
}

/// Why a folder cannot be used.
public struct RecordingFolderError: Error, CustomStringConvertible, Sendable {
    let path: String
    let code: Int32

    /// One clause.
    public var description: String {
        "recordings-folder: cannot write to \(path): \(String(cString: strerror(code)))"
    }
}
