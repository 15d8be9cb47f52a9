// One thread that writes recordings, with the chunks that wait for it and the files that it has open.
//
// Invariant: bytes that wait at all threads never exceed the limit, apart from the ends of recordings,
// which are always taken and have no audio. The files are touched by the thread only.

import CLinux
import Codec
import Logging
import Server
import Session
import Synchronization

/// The bytes of chunks that wait for all threads. Any thread.
final class QueuedBytes: Sendable {
    private let limit: Int
    private let waiting = Atomic<Int>(0)

    init(limit: Int) { self.limit = limit }

    /// Counts bytes if they fit.
    func take(_ bytes: Int) -> Bool {
        let sum = waiting.add(bytes, ordering: .relaxed).newValue
        guard sum > limit else { return true }
        give(bytes)
        return false
    }

    /// Subtracts bytes that do not wait any more.
    func give(_ bytes: Int) { waiting.subtract(bytes, ordering: .relaxed) }
}

/// A thread and its queue. Any thread.
final class RecordingWriter: @unchecked Sendable {
    /// The time between two warnings about dropped audio.
    private static let warningInterval = Duration.seconds(30)

    /// Guards everything up to `openRecordings`; signalled for each chunk and for the end.
    private let lock = ConditionLock()
    private var waiting: [RecordingChunk] = []
    private var waitingBytes = 0
    private var isStopping = false
    private var tally = RecordingCounts()
    private var warnedAt: Instant?
    private var thread: BackgroundThread?
    /// The thread's own.
    private var openRecordings: [String: OpenRecording] = [:]

    private let folder: RecordingFolder
    private let queued: QueuedBytes
    private let logger: Logger
    private let removals: RecordingRemovals
    private let uploads: RecordingUploads?

    /// - Parameters:
    ///   - queued: counts the chunks that wait at this thread and at others.
    ///   - removals: removes the other files that the folder has of a session.
    ///   - uploads: takes the files of each complete recording. Without it, they stay in the
    ///     folder.
    init(
        _ folder: RecordingFolder, queued: QueuedBytes, removals: RecordingRemovals,
        uploads: RecordingUploads?, logger: Logger
    ) {
        self.folder = folder
        self.queued = queued
        self.removals = removals
        self.uploads = uploads
        self.logger = logger
        thread = BackgroundThread("recordings", niceness: BackgroundThread.addedNiceness) {
            [self] in run()
        }
    }

    var counts: RecordingCounts { lock.withLock { tally } }

    func keep(_ chunk: RecordingChunk) {
        var chunk = chunk
        let dropped = lock.withLock { () -> Int in
            var dropped = 0
            if queued.take(chunk.heldBytes) {
                waitingBytes += chunk.heldBytes
            } else {
                dropped = chunk.audioBytes
                tally.droppedBytes += dropped
                guard chunk.sequel != .more else { return dropped }
                chunk.user = RecordedAudio()
                chunk.agent = RecordedAudio()
            }
            waiting.append(chunk)
            lock.signal()
            return dropped
        }
        if dropped > 0 { warn("too much audio waits to be written") }
    }

    func shutdown() {
        lock.withLock {
            isStopping = true
            lock.broadcast()
        }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        while let chunks = takeWaiting() {
            for chunk in chunks { handle(chunk) }
        }
        // The sessions have ended before: a recording that is still open has lost its end.
        for (_, recording) in openRecordings { finish(recording, at: nil) }
        openRecordings = [:]
    }

    /// Waits for chunks. The result is nil where no more come.
    private func takeWaiting() -> [RecordingChunk]? {
        lock.withLock {
            while waiting.isEmpty, !isStopping { lock.wait() }
            guard !waiting.isEmpty else { return nil }
            defer {
                waiting = []
                queued.give(waitingBytes)
                waitingBytes = 0
            }
            return waiting
        }
    }

    private func handle(_ chunk: RecordingChunk) {
        guard chunk.sequel != .discard else { return discard(chunk) }
        guard let recording = recording(of: chunk) else { return }
        recording.append(chunk, isLast: chunk.sequel == .end)
        count(recording)
        guard chunk.sequel == .end else { return }
        openRecordings[chunk.sessionID] = nil
        finish(recording, at: chunk.takenAt)
    }

    private func discard(_ chunk: RecordingChunk) {
        if let recording = openRecordings.removeValue(forKey: chunk.sessionID) {
            recording.discard()
            lock.withLock { tally.open -= 1 }
        }
        if chunk.isContinued { removals.eraseSoon(chunk.sessionID) }
    }

    /// The recording that a chunk belongs to. A file is made when there is audio for it.
    private func recording(of chunk: RecordingChunk) -> OpenRecording? {
        if let open = openRecordings[chunk.sessionID] { return open }
        guard chunk.audioBytes > 0 else { return nil }
        let age = (MonotonicClock.now - chunk.startedAt).wholeMilliseconds / 1_000
        guard
            let made = OpenRecording(
                of: chunk, beginningAt: WallClock.seconds - age, in: folder)
        else {
            lock.withLock { tally.droppedBytes += chunk.audioBytes }
            warn("a file cannot be created")
            return nil
        }
        openRecordings[chunk.sessionID] = made
        lock.withLock { tally.open += 1 }
        return made
    }

    private func finish(_ recording: OpenRecording, at end: Instant?) {
        let files = recording.finish(at: end)
        count(recording)
        let isWhole = files.count == RecordedFile.tracks.count
        lock.withLock {
            tally.open -= 1
            if isWhole { tally.finished += 1 }
        }
        if !isWhole { warn("a file is gone from its folder") }
        uploads?.add(files)
    }

    private func count(_ recording: OpenRecording) {
        let (written, dropped) = recording.takeTally()
        lock.withLock {
            tally.writtenBytes += written
            tally.droppedBytes += dropped
        }
        // The operator may have freed space meanwhile. Counting a large folder takes time, so it is
        // not done each time.
        if dropped > 0, warn("the folder is full or cannot be written to") { folder.recount() }
    }

    /// Says that audio is dropped, now and then.
    /// - Returns: whether it was time to.
    @discardableResult
    private func warn(_ reason: String) -> Bool {
        let now = MonotonicClock.now
        let isDue = lock.withLock { () -> Bool in
            if let warnedAt, now < warnedAt + Self.warningInterval { return false }
            warnedAt = now
            return true
        }
        if isDue {
            logger.warning("audio of recordings is dropped", metadata: ["reason": "\(reason)"])
        }
        return isDue
    }
}

/// The two files of a session that is being recorded. Confined to its writer's thread.
private final class OpenRecording {
    private let startedAt: Instant
    private let user: TrackFile
    private let agent: TrackFile

    /// - Parameter seconds: when the recording began, since 1970.
    init?(of chunk: RecordingChunk, beginningAt seconds: Int, in folder: RecordingFolder) {
        let base = folder.beginRecording(
            of: chunk.sessionID, at: seconds, isContinued: chunk.isContinued)
        guard let base else { return nil }
        let comments = ["PARLEY_SESSION=\(chunk.sessionID)", "PARLEY_STARTED=\(seconds)"]
        guard
            let user = TrackFile(
                at: "\(base).user\(RecordedFile.ending)", in: folder,
                RecordedTrack(start: chunk.startedAt, jitter: RecordedTrack.jitter),
                comments: comments + ["PARLEY_SIDE=user"])
        else { return nil }
        guard
            let agent = TrackFile(
                at: "\(base).agent\(RecordedFile.ending)", in: folder,
                RecordedTrack(start: chunk.startedAt, jitter: .zero),
                comments: comments + ["PARLEY_SIDE=agent"])
        else {
            user.discard()
            return nil
        }
        self.user = user
        self.agent = agent
        startedAt = chunk.startedAt
    }

    func append(_ chunk: RecordingChunk, isLast: Bool) {
        user.append(chunk.user, at: isLast ? nil : chunk.takenAt)
        agent.append(chunk.agent, at: isLast ? nil : chunk.takenAt)
    }

    /// Ends both files at the same position.
    /// - Parameter end: when the recording ended. By default it ends with the last audio.
    /// - Returns: the files that exist.
    func finish(at end: Instant?) -> [UploadedFile] {
        user.append(RecordedAudio(), at: nil)
        agent.append(RecordedAudio(), at: nil)
        let lasted = end.map { max(0, ($0 - startedAt).wholeMilliseconds) } ?? 0
        let samples = max(
            SampleRate.hz48000.samples(inMilliseconds: lasted), user.position, agent.position)
        return [user, agent].compactMap {
            $0.finish(playing: samples) ? UploadedFile(path: $0.path) : nil
        }
    }

    func discard() {
        user.discard()
        agent.discard()
    }

    func takeTally() -> (written: Int, dropped: Int) {
        let (user, agent) = (user.takeTally(), agent.takeTally())
        return (user.written + agent.written, user.dropped + agent.dropped)
    }
}
