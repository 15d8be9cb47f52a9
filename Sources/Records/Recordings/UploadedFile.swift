// A file of a recording by its name alone: it may be at another server, and not in the folder any more.

/// The name of a complete file of a recording.
struct UploadedFile: Hashable, Sendable {
    /// The day on which the recording began: `2026-11-23`.
    let day: String
    /// The recording's name: the session's id, and for others than the first one a number behind it.
    let name: String
    /// Its side.
    let track: String

    /// The file of a line in a day's list: `sess_AbC.user`. Nil where the line has another form.
    init?(_ line: some StringProtocol, on day: String) {
        let parts = line.split(separator: ".", omittingEmptySubsequences: false)
        guard RecordedFile.isDay(day), parts.count == 2, RecordedFile.isName(parts[0]),
            RecordedFile.tracks.contains(String(parts[1]))
        else { return nil }
        (self.day, name, track) = (day, String(parts[0]), String(parts[1]))
    }

    /// The file that a note asks to delete: `2026-11-23.sess_AbC.user`. Nil where the note has
    /// another form.
    init?(note: String) {
        guard let dot = note.firstIndex(of: ".") else { return nil }
        self.init(note[note.index(after: dot)...], on: String(note[..<dot]))
    }

    /// A complete file by its path in the folder. Nil where the path has another form.
    init?(path: String) {
        let parts = path.split(separator: "/").suffix(2)
        guard let day = parts.first, let file = parts.last, file.hasSuffix(RecordedFile.ending)
        else { return nil }
        self.init(file.dropLast(RecordedFile.ending.count), on: String(day))
    }

    /// A file that the folder has.
    init(_ file: RecordedFile) {
        (day, name, track) = (file.day, file.name, file.track)
    }

    /// The session that was recorded.
    var sessionID: String { RecordedFile.sessionID(of: name[...]) }
    /// Its line in the list of its day.
    var line: String { "\(name).\(track)" }
    /// The name of the note that it is to be deleted.
    var note: String { "\(day).\(line)" }
    /// Where it is below the folder, and below the URL that it is sent to.
    var place: String { "\(day)/\(line)\(RecordedFile.ending)" }
}
