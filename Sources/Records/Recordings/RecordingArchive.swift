// The keeper of recordings: shards hand over chunks, threads write them to files. Nothing here is
// waited for by a shard: what finds no room is dropped, counted, and leaves a gap of its length.
//
// All chunks of a session go to the same thread, which has the session's files. RecordingUploads
// takes complete files to another server and deletes them there, RecordingRemovals removes them here.

import Codec
import Logging
import Server
import Session

/// How recordings are kept.
public struct RecordingSettings: Sendable {
    /// The folder of the files.
    public var folder: String
    /// Bytes that the folder's files may have together; 0: no limit.
    public var maxBytes = 0
    /// Bytes of chunks that may wait for the threads together.
    public var maxQueuedBytes = 32 << 20
    /// Threads that encode and write, at least 1.
    public var threads = 1
    /// How long complete files are kept after the day on which they began; 0: until they are removed
    /// or uploaded.
    public var days = 0
    /// Where complete files go. Where nil, they stay in the folder.
    public var upload: RecordingUpload?

    /// The defaults, with a folder.
    public init(folder: String) { self.folder = folder }
}

/// Keeps recordings in a folder.
public final class RecordingArchive: RecordingKeeper {
    private let folder: RecordingFolder
    private let writers: [RecordingWriter]
    private let removals: RecordingRemovals
    private let uploads: RecordingUploads?

    /// Ends the files that an earlier process has left open, and starts the threads.
    /// - Throws: where the folder cannot be written to.
    public init(
        _ settings: RecordingSettings, logger: Logger
    ) throws(RecordingFolderError) {
        let folder = try RecordingFolder(settings.folder, maxBytes: settings.maxBytes)
        self.folder = folder
        let recovered = folder.recover()
        if recovered > 0 {
            logger.info("recordings recovered", metadata: ["files": "\(recovered)"])
        }
        let uploads = settings.upload.flatMap { RecordingUploads($0, of: folder, logger: logger) }
        self.uploads = uploads
        let removals = RecordingRemovals(
            from: folder, uploads, after: settings.days, logger: logger)
        self.removals = removals
        let queued = QueuedBytes(limit: settings.maxQueuedBytes)
        writers = (0..<max(1, settings.threads)).map { _ in
            RecordingWriter(
                folder, queued: queued, removals: removals, uploads: uploads, logger: logger)
        }
    }

    /// Takes the next chunk of a session.
    public func keep(_ chunk: RecordingChunk) {
        let index = chunk.sessionID.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF }
        writers[index % writers.count].keep(chunk)
    }

    /// The counts of all threads.
    public var counts: RecordingCounts {
        var sum = uploads?.counts ?? RecordingCounts()
        for writer in writers {
            let counts = writer.counts
            sum.open += counts.open
            sum.finished += counts.finished
            sum.writtenBytes += counts.writtenBytes
            sum.droppedBytes += counts.droppedBytes
        }
        sum.folderBytes = folder.heldBytes
        return sum
    }

    // MARK: What is kept

    /// The complete recordings of a session that are in the folder.
    func recordings(of sessionID: String) -> [RecordingListing] {
        let files = folder.completeFiles(of: sessionID)
        return files.filter { $0.track == "user" }.compactMap { user in
            let agent = files.first { $0.track == "agent" && $0.base == user.base }
            return agent.map {
                RecordingListing(name: user.name, userBytes: user.bytes, agentBytes: $0.bytes)
            }
        }
    }

    /// Reads a piece of a recording.
    /// - Returns: its bytes, and the size of the whole file. Nil where the folder does not have it.
    func read(_ piece: RecordingPiece) -> (bytes: [UInt8], total: Int)? {
        guard
            let file = folder.completeFile(piece.name, piece.side.rawValue),
            let bytes = file.read(from: piece.offset, count: piece.count)
        else { return nil }
        return (bytes, file.bytes)
    }

    /// Deletes the complete recordings of a session, also where they were uploaded, and the files
    /// of one that has just ended and is still being written.
    /// - Throws: where that is not done to the end. Calling it again finishes the work.
    func removeRecordings(of sessionID: String) throws(RecordError) {
        let now = MonotonicClock.now
        keep(
            RecordingChunk(
                sessionID: sessionID, isContinued: true, startedAt: now, takenAt: now,
                user: RecordedAudio(), agent: RecordedAudio(), sequel: .discard))
        do throws(RecordingFolderError) { try removals.erase([sessionID]) } catch {
            throw RecordError("\(error)")
        }
    }

    /// Writes the audio that waits and closes all files. Files that are not uploaded yet wait for
    /// the next start.
    public func shutdown() {
        for writer in writers { writer.shutdown() }
        removals.shutdown()
        uploads?.shutdown()
    }
}
