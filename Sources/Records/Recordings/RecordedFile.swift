// The files of recordings by their names. RecordingFolder makes and removes them; anything may lie in
// its folder beside them, so that only what has the form of such a name counts.

import Glibc

/// A file of a recording in a folder.
struct RecordedFile: Equatable, Sendable {
    /// The two sides of a recording.
    static let tracks = ["user", "agent"]
    /// The end of a complete file's name.
    static let ending = ".opus"
    /// The end of the name of a file that is being written.
    static let partEnding = ".opus.part"

    /// Its path.
    let path: String
    /// The day on which the recording began, in UTC: `2026-11-23`.
    let day: String
    /// The recording's name: the session's id, and for others than the first one a number behind it.
    let name: String
    /// Its side.
    let track: String
    /// Whether nothing more comes.
    let isComplete: Bool
    /// Its length.
    let bytes: Int

    private init?(_ file: String, on day: String, in folder: String) {
        let parts = file.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, Self.isName(parts[0]), Self.tracks.contains(String(parts[1])),
            [Self.ending, Self.partEnding].contains(".\(parts[2])")
        else { return nil }
        path = "\(folder)/\(day)/\(file)"
        self.day = day
        name = String(parts[0])
        track = String(parts[1])
        isComplete = ".\(parts[2])" == Self.ending
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        bytes = Int(status.st_size)
    }

    /// The path of the recording: its files' without track and ending.
    var base: String {
        String(path.dropLast(track.count + 1 + (isComplete ? Self.ending : Self.partEnding).count))
    }

    /// The session that was recorded.
    var sessionID: String { Self.sessionID(of: name[...]) }

    /// The session of a recording: its name up to the numbers that RecordingFolder has put behind it.
    static func sessionID(of name: Substring) -> String {
        var id = name
        while let dash = id.lastIndex(of: "-"), dash > id.startIndex {
            let number = id[id.index(after: dash)...]
            guard !number.isEmpty, number.utf8.allSatisfy({ (48...57).contains($0) }) else { break }
            id = id[..<dash]
        }
        return String(id)
    }

    /// Bytes of a name. 160: an id of 128, and what stands behind it.
    private static let maxNameBytes = 160
    /// Bytes of a session's id.
    static let maxIDBytes = 128

    /// Whether a text may be the name of a recording: letters, digits, _ and -.
    static func isName(_ text: some StringProtocol) -> Bool {
        (1...maxNameBytes).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// The files of recordings in a folder, in the order of their names. Days that cannot be read are
    /// left out.
    /// - Parameter sessions: only files of these. The default is all files.
    static func all(in folder: String, of sessions: Set<String>? = nil) -> [RecordedFile] {
        days(in: folder).flatMap { (try? all(on: $0, in: folder, of: sessions)) ?? [] }
    }

    /// The files of one day.
    /// - Throws: where the day cannot be read.
    static func all(
        on day: String, in folder: String, of sessions: Set<String>?
    ) throws(RecordingFolderError) -> [RecordedFile] {
        try entries(of: "\(folder)/\(day)") { entry in
            sessions?.contains(sessionID(of: entry.prefix { $0 != "." })) ?? true
        }.compactMap { RecordedFile($0, on: day, in: folder) }
    }

    /// The complete file of a recording, or nil where the folder does not have it.
    static func complete(_ name: String, _ track: String, in folder: String) -> RecordedFile? {
        days(in: folder).lazy.compactMap { day in
            RecordedFile("\(name).\(track)\(ending)", on: day, in: folder)
        }.first
    }

    /// Reads a piece of it.
    /// - Returns: the bytes, which are fewer than asked for at the end of the file, or nil where
    ///   the file is gone or cannot be read.
    func read(from offset: Int, count: Int) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let wanted = max(0, min(count, bytes - offset))
        let piece = [UInt8](unsafeUninitializedCapacity: wanted) { room, filled in
            while filled < wanted {
                let read = pread(
                    descriptor, room.baseAddress! + filled, wanted - filled, off_t(offset + filled))
                guard read > 0 else { return }
                filled += read
            }
        }
        return piece.count == wanted ? piece : nil
    }

    /// The days in a folder, in order.
    static func days(in folder: String) -> [String] {
        (try? entries(of: folder, where: isDay)) ?? []
    }

    /// Whether a name is a day: `2026-11-23`.
    static func isDay(_ name: String) -> Bool {
        let form = name.utf8.lazy.map { (48...57).contains($0) ? UInt8(ascii: "0") : $0 }
        return form.elementsEqual("0000-00-00".utf8)
    }

    /// The wanted names in a folder, in order. A path that is no folder has none.
    /// - Throws: where it cannot be read.
    static func entries(
        of folder: String, where isWanted: (String) -> Bool
    ) throws(RecordingFolderError) -> [String] {
        guard let directory = opendir(folder) else {
            guard errno == ENOENT || errno == ENOTDIR else {
                throw RecordingFolderError(path: folder, code: errno, purpose: .read)
            }
            return []
        }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if isWanted(name) { names.append(name) }
        }
        return names.sorted()
    }
}
