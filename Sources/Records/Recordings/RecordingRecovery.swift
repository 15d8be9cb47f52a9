// Ends the files that a process has left open because it was killed: at the next start each gets its
// end page and its name. Both sides of a recording are made equally long. The audio that had not been
// written is lost, about the last second.
//
// Invariant: a file is removed only where it is too short for audio. One that cannot be read, or has
// no beginning, stays as it is.

import Codec
import Glibc

extension RecordingFolder {
    /// Ends all files that no process writes to.
    /// - Returns: how many.
    func recover() -> Int {
        let bases = Set(files().lazy.filter { !$0.isComplete }.map(\.base)).sorted()
        let count = bases.reduce(0) { $0 + recover($1) }
        if !bases.isEmpty { recount() }
        return count
    }

    /// Ends the files of one recording.
    private func recover(_ base: String) -> Int {
        var open: [LeftFile] = []
        var samples = 0
        for track in RecordedFile.tracks {
            let path = "\(base).\(track)\(RecordedFile.ending)"
            let isComplete = access(path, F_OK) == 0
            let left = isComplete ? path : "\(base).\(track)\(RecordedFile.partEnding)"
            guard access(left, F_OK) == 0 else { continue }
            // Another process writes it, or it cannot be read.
            guard let file = LeftFile(left, isComplete: isComplete) else { return 0 }
            samples = max(samples, file.playedSamples)
            if !isComplete { open.append(file) }
        }
        return open.count { $0.end(playing: samples) }
    }
}

/// A file that its writer has left.
private final class LeftFile {
    /// Bytes of a file that is too short for audio: its headers take 200.
    private static let emptyBytes = 1_024

    private let path: String
    private let descriptor: Int32
    private let byteCount: Int
    /// Its whole pages, or nil where it has none.
    private let recovery: OggOpusRecovery?

    /// - Returns: nil where a process writes it, or it cannot be read.
    init?(_ path: String, isComplete: Bool) {
        let access = (isComplete ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW
        let file = Glibc.open(path, access)
        guard file >= 0 else { return nil }
        var status = stat()
        var isReadable = fstat(file, &status) == 0
        if !isComplete { isReadable = isReadable && flock(file, LOCK_EX | LOCK_NB) == 0 }
        let recovery =
            isReadable
            ? OggOpusRecovery { offset, room in
                let count = pread(file, room.baseAddress, room.count, off_t(offset))
                if count < 0 { isReadable = false }
                return count
            } : nil
        guard isReadable else {
            close(file)
            return nil
        }
        self.path = path
        descriptor = file
        byteCount = Int(status.st_size)
        self.recovery = recovery
    }

    deinit { close(descriptor) }

    /// Samples at 48 kHz that are played of it.
    var playedSamples: Int { recovery?.playedSamples ?? 0 }

    /// Writes the end page, and gives the file its name. One without audio is removed.
    /// - Returns: whether it has its name.
    func end(playing samples: Int) -> Bool {
        guard let recovery else {
            if byteCount < Self.emptyBytes { unlink(path) }
            return false
        }
        if !recovery.isEnded, !append(to: recovery, playing: samples) { return false }
        return rename(
            path, String(path.dropLast(RecordedFile.partEnding.count)) + RecordedFile.ending) == 0
    }

    /// Appends silence and the end page to the whole pages. Without room for them the stream has no
    /// end page, which readers accept.
    /// - Returns: whether the file has whole pages only.
    private func append(to recovery: OggOpusRecovery, playing samples: Int) -> Bool {
        var end = recovery.byteCount
        guard ftruncate(descriptor, off_t(end)) == 0 else { return false }
        var writer = recovery.writer
        var pages: [UInt8] = []
        var isWritten = true
        while isWritten, samples - writer.playedSamples > TrackFile.fillSamples {
            writer.appendSilence(samples: TrackFile.fillSamples, into: &pages)
            writer.flush(into: &pages)
            isWritten = write(pages, at: &end)
            pages.removeAll(keepingCapacity: true)
        }
        if isWritten {
            writer.finish(playing: samples, into: &pages)
            isWritten = write(pages, at: &end)
        }
        return isWritten || ftruncate(descriptor, off_t(end)) == 0
    }

    /// - Parameter end: the length of the file, which grows where all is written.
    private func write(_ pages: [UInt8], at end: inout Int) -> Bool {
        let written = pages.withUnsafeBytes {
            pwrite(descriptor, $0.baseAddress, $0.count, off_t(end))
        }
        guard written == pages.count else { return false }
        end += written
        return true
    }
}
