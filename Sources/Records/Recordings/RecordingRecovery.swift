// Ends the files that a process has left open because it was killed: at the next start each gets its
// end page and its name. Both sides of a recording are made equally long. What is lost is what had not
// been written, about the last second.

import Codec
import Glibc
import Session

extension RecordingFolder {
    /// Bytes of a file that is recovered, at most. 4 GiB: two weeks of speech.
    private static let maxRecoveredBytes = 4 << 30

    /// Ends all files that no process writes to.
    /// - Returns: how many.
    func recover() -> Int {
        let parts = files().map(\.path).filter { $0.hasSuffix(Self.partEnding) }
        let bases = Set(parts.compactMap(Self.base)).sorted()
        return bases.reduce(0) { $0 + recover($1) }
    }

    /// The path of a recording: its files' without track and ending.
    private static func base(of path: String) -> String? {
        for track in tracks {
            for ending in [partEnding, ending] where path.hasSuffix(".\(track)\(ending)") {
                return String(path.dropLast(track.utf8.count + ending.utf8.count + 1))
            }
        }
        return nil
    }

    /// Ends the files of one recording.
    private func recover(_ base: String) -> Int {
        var open: [LeftFile] = []
        var samples = 0
        for track in Self.tracks {
            let path = "\(base).\(track)\(Self.ending)"
            if access(path, F_OK) == 0 {
                samples = max(samples, Self.recovery(of: path)?.playedSamples ?? 0)
            } else if access(path + ".part", F_OK) == 0 {
                // Another process writes it.
                guard let file = LeftFile(path) else { return 0 }
                open.append(file)
            }
        }
        for file in open { samples = max(samples, file.recovery?.playedSamples ?? 0) }
        for file in open where !file.end(playing: samples, in: self) { remove(file.path + ".part") }
        return open.count
    }

    fileprivate static func recovery(of path: String) -> OggOpusRecovery? {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return recovery(of: descriptor)
    }

    fileprivate static func recovery(of descriptor: Int32) -> OggOpusRecovery? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_size > 0,
            status.st_size <= maxRecoveredBytes,
            let start = mmap(nil, Int(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0),
            start != MAP_FAILED
        else { return nil }
        defer { munmap(start, Int(status.st_size)) }
        return OggOpusRecovery(UnsafeRawBufferPointer(start: start, count: Int(status.st_size)))
    }
}

/// A file that its writer has left; nil: its writer lives.
private final class LeftFile {
    /// Its path in the end.
    let path: String
    /// Its whole pages; nil: it has none.
    let recovery: OggOpusRecovery?
    private let descriptor: Int32

    init?(_ path: String) {
        self.path = path
        descriptor = Glibc.open(path + ".part", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            return nil
        }
        recovery = RecordingFolder.recovery(of: descriptor)
    }

    deinit { close(descriptor) }

    /// Writes the end page, and gives the file its name; false: it has no audio.
    func end(playing samples: Int, in folder: RecordingFolder) -> Bool {
        guard let recovery else { return false }
        if !recovery.isEnded {
            var writer = recovery.writer
            var pages: [UInt8] = []
            writer.finish(playing: samples, into: &pages)
            guard ftruncate(descriptor, off_t(recovery.byteCount)) == 0 else { return false }
            let written = pages.withUnsafeBytes {
                pwrite(descriptor, $0.baseAddress, $0.count, off_t(recovery.byteCount))
            }
            // Without room the stream ends without an end page, which readers accept.
            if written == pages.count { folder.note(written) }
        }
        return rename(path + ".part", path) == 0
    }
}
