// One file of a recording while it is written: audio is placed on the timeline, encoded where it is
// not Opus yet, and appended in whole pages.
//
// A write that fails leaves the file as it was before. The audio of these pages, and the rest of
// the same chunk, is lost and counted. Its time is filled with silence by the next write that
// succeeds.
//
// Invariant: the file is a stream of whole pages; the samples that are written never overtake the
// track's position by more than a frame.

import Codec
import Glibc
import Session

/// One side's file. Confined to the thread of its writer.
final class TrackFile {
    /// Silence that is written at once where a long time is filled, in samples at 48 kHz: a minute, 12
    /// kB.
    static let fillSamples = 60 * SampleRate.hz48000.hertz

    /// Its path in the end; it has another until then.
    let path: String
    private let folder: RecordingFolder
    private let descriptor: Int32
    private var track: RecordedTrack
    private var stream: OggOpusWriter
    /// The stream as the file has it.
    private var written: OggOpusWriter
    /// A write has failed: the rest of the chunk is not written either.
    private var isBlocked = false
    private var encoder: SampleEncoder?
    /// Pages that are to be written.
    private var pages: [UInt8] = []
    /// Bytes of audio in these pages and in the page in progress.
    private var audioBytes = 0
    /// Bytes of the file.
    private var fileBytes = 0
    /// Bytes of the file that were written, and of audio that was dropped, since the counts were
    /// last taken.
    private var tally = (written: 0, dropped: 0)

    /// Creates a file.
    /// - Parameters:
    ///   - path: its path in the end; it has another until then.
    ///   - track: the side's timeline at its start.
    /// - Returns: nil where it cannot be created.
    init?(at path: String, in folder: RecordingFolder, _ track: RecordedTrack, comments: [String]) {
        self.path = path
        self.folder = folder
        self.track = track
        descriptor = open(
            path + ".part", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0o600)
        stream = OggOpusWriter(serial: .random(in: .min ... .max))
        written = stream
        // A process that starts now may have found the file before it was locked, and removed it.
        var status = stat()
        guard descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) == 0,
            fstat(descriptor, &status) == 0, status.st_nlink > 0
        else { return nil }
        stream.begin(comments: comments, into: &pages)
        write()
        guard !isBlocked else {
            unlink(path + ".part")
            return nil
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Samples at 48 kHz of the track so far.
    var position: Int { track.position }

    /// Takes the counts since the last call.
    func takeTally() -> (written: Int, dropped: Int) {
        defer { tally = (0, 0) }
        return tally
    }

    /// Writes more of the side.
    /// - Parameter now: the time of the shard, or nil where nothing more comes.
    func append(_ audio: RecordedAudio, at now: Instant?) {
        isBlocked = false
        track.append(audio)
        while let piece = track.next(at: now) { append(piece) }
        write()
    }

    /// Ends the file, and gives it its name.
    /// - Parameter samples: how long it plays, at 48 kHz.
    /// - Returns: whether it has its name. It does not where the file was removed meanwhile.
    func finish(playing samples: Int) -> Bool {
        isBlocked = false
        endFrame()
        if fill(to: samples) {
            stream.finish(playing: samples, into: &pages)
            write()
        }
        return rename(path + ".part", path) == 0
    }

    /// Removes the file.
    func discard() {
        pages = []
        folder.remove(path + ".part")
    }

    // MARK: Pieces

    /// Appends the piece that ends at the track's position.
    private func append(_ piece: RecordedTrack.Piece) {
        switch piece {
        case .silence:
            endFrame()
            fill(to: track.position)
        case .loss(let samples):
            endFrame()
            guard fill(to: track.position - samples) else { return }
            stream.appendLoss(samples: samples, into: &pages)
        case .audio(.opus, let packet, let samples):
            endFrame()
            guard fill(to: track.position - samples) else { return drop(packet) }
            try? stream.append(packet.span.bytes, into: &pages)
            audioBytes += packet.count
        case .audio(let format, let bytes, let samples):
            encode(bytes, format, samples: samples)
        }
    }

    private func encode(_ bytes: ArraySlice<UInt8>, _ format: AudioFormat, samples: Int) {
        guard !isBlocked else { return drop(bytes) }
        if encoder?.format != format {
            endFrame()
            encoder = try? SampleEncoder(format)
        }
        guard let encoder, !encoder.isEmpty || fill(to: track.position - samples) else {
            return drop(bytes)
        }
        audioBytes += bytes.count
        encoder.append(bytes) { packet in
            try? stream.append(packet, into: &pages)
        }
    }

    private func drop(_ bytes: ArraySlice<UInt8>) { tally.dropped += bytes.count }

    /// The samples that wait for the rest of their frame are encoded with silence behind them.
    private func endFrame() {
        encoder?.endFrame { packet in try? stream.append(packet, into: &pages) }
    }

    /// Fills the time up to a position with silence, as far as that is not written. A long time is
    /// written bit by bit.
    /// - Returns: false where that fails: nothing may follow.
    @discardableResult
    private func fill(to position: Int) -> Bool {
        while !isBlocked, position - stream.position > Self.fillSamples {
            stream.appendSilence(samples: Self.fillSamples, into: &pages)
            write()
        }
        guard !isBlocked else { return false }
        stream.appendSilence(samples: position - stream.position, into: &pages)
        return true
    }

    // MARK: Writing

    /// Appends the pages to the file, or leaves it as it is.
    private func write() {
        stream.flush(into: &pages)
        defer {
            pages.removeAll(keepingCapacity: true)
            audioBytes = 0
        }
        guard !pages.isEmpty else { return }
        guard folder.hasRoom(for: pages.count), writeAll() else {
            isBlocked = true
            tally.dropped += audioBytes
            stream = written
            // Samples that wait for the rest of their frame have lost their place.
            encoder = nil
            return
        }
        written = stream
        fileBytes += pages.count
        folder.note(pages.count)
        tally.written += pages.count
    }

    private func writeAll() -> Bool {
        var done = 0
        while done < pages.count {
            let count = pages.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress! + done, $0.count - done)
            }
            guard count > 0 else {
                if count < 0, errno == EINTR { continue }
                // A page that is written in part would end the stream for its readers.
                if done > 0 { ftruncate(descriptor, off_t(fileBytes)) }
                return false
            }
            done += count
        }
        return true
    }
}
