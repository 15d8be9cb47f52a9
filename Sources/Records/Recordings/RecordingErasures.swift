// Deletes the recordings of sessions. Files in the folder are deleted at once. For each uploaded
// file a note is left, an empty file in `DIR/erase`. UploadWork answers a note by a DELETE, and
// removes it then. So a deletion survives restarts, and a process that is no server can make it.
//
// Invariant: the files are removed before the lists are read (UploadList says why). The notes are on
// the disk when `erase` returns.

import Glibc

extension RecordingFolder {
    private var notes: String { "\(path)/erase" }

    /// Removes the complete files of sessions, and leaves notes to delete their uploaded files.
    /// - Returns: how many uploaded files are to be deleted.
    /// - Throws: where that is not done to the end. Calling it again finishes the work.
    @discardableResult
    func erase(_ sessions: Set<String>) throws(RecordingFolderError) -> Int {
        let days = try RecordedFile.entries(of: path, where: RecordedFile.isDay)
        for day in days { try removeFiles(of: sessions, on: day) }
        var uploaded: Set<UploadedFile> = []
        for day in days {
            uploaded.formUnion(try UploadList(of: day, in: path).files(of: sessions))
        }
        try noteErasures(of: uploaded)
        return uploaded.count
    }

    private func removeFiles(
        of sessions: Set<String>, on day: String
    ) throws(RecordingFolderError) {
        let files = try RecordedFile.all(on: day, in: path, of: sessions).filter(\.isComplete)
        for file in files {
            let code = remove(file.path)
            // Others may be faster: it was uploaded, or is too old.
            guard code == 0 || code == ENOENT else {
                throw RecordingFolderError(path: file.path, code: code, purpose: .remove)
            }
        }
        if !files.isEmpty { Self.synchronize("\(path)/\(day)") }
    }

    // MARK: Notes

    /// Notes that uploaded files are to be deleted.
    func noteErasures(of files: Set<UploadedFile>) throws(RecordingFolderError) {
        guard !files.isEmpty else { return }
        makeFolderOfNotes()
        for file in files {
            let path = "\(notes)/\(file.note)"
            let descriptor = open(
                path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else {
                if errno == EEXIST { continue }
                throw RecordingFolderError(path: path, code: errno, purpose: .write)
            }
            close(descriptor)
        }
        Self.synchronize(notes)
    }

    /// The folder of notes is the server's own, also where root's command line makes it.
    private func makeFolderOfNotes() {
        var status = stat()
        guard mkdir(notes, 0o700) == 0, lstat(path, &status) == 0 else { return }
        _ = chown(notes, status.st_uid, status.st_gid)
        Self.synchronize(path)
    }

    /// The uploaded files that are to be deleted, in the order of their names.
    func notedErasures() -> [UploadedFile] {
        let names = try? RecordedFile.entries(of: notes) { UploadedFile(note: $0) != nil }
        return (names ?? []).compactMap { UploadedFile(note: $0) }
    }

    /// Whether a file is still to be deleted.
    func hasNote(of file: UploadedFile) -> Bool { access("\(notes)/\(file.note)", F_OK) == 0 }

    /// Removes the note of an uploaded file that is deleted.
    func removeNote(of file: UploadedFile) { unlink("\(notes)/\(file.note)") }

    /// Has the names in a folder written to the disk, as far as its file system does that.
    private static func synchronize(_ folder: String) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}
