// One thread that writes recordings, with the chunks that wait for it and the files that it has open.
//
// Invariant: bytes that wait never exceed the limit, apart from the ends of recordings, which are
// always taken and have no audio. The files are touched by the thread only.

import CLinux
import Codec
import Logging
import Server
import Session

/// A thread and its queue. Any thread.
final class RecordingWriter: @unchecked Sendable {
    /// How much nicer the thread is than the process, as workers are: event loops have priority.
    private static let addedNiceness: Int32 = 5
    /// The time between two warnings about dropped audio.
    private static let warningInterval = Duration.seconds(30)

    /// Guards everything up to `openRecordings`; signalled for each chunk and for the end.
    private let lock = ConditionLock()
    private var waiting: [RecordingChunk] = []
    private var waitingBytes = 0
    private var isStopping = false
    private var tally = RecordingCounts()
    private var warnedAt: Instant?
    private var thread: pthread_t?
    /// The thread's own.
    private var openRecordings: [String: OpenRecording] = [:]

    private let folder: RecordingFolder
    private let maxQueuedBytes: Int
    private let logger: Logger
    private let handleComplete: @Sendable (_ paths: [String]) -> Void

    /// - Parameter handleComplete: is given the files of each recording that is complete.
    init(
        _ folder: RecordingFolder, maxQueuedBytes: Int, logger: Logger,
        handleComplete: @escaping @Sendable (_ paths: [String]) -> Void
    ) {
        self.folder = folder
        self.maxQueuedBytes = maxQueuedBytes
        self.logger = logger
        self.handleComplete = handleComplete
        thread = startThread { [self] in run() }
        precondition(thread != nil, "a thread for recordings cannot be started")
    }

    var counts: RecordingCounts { lock.withLock { tally } }

    func keep(_ chunk: RecordingChunk) {
        var chunk = chunk
        let dropped = lock.withLock { () -> Int in
            var dropped = 0
            if waitingBytes + chunk.heldBytes > maxQueuedBytes {
                dropped = chunk.audioBytes
                tally.droppedBytes += dropped
                chunk.user = RecordedAudio()
                chunk.agent = RecordedAudio()
                if case .more = chunk.sequel { return dropped }
            }
            waiting.append(chunk)
            waitingBytes += chunk.heldBytes
            lock.signal()
            return dropped
        }
        if dropped > 0 { warn("too much audio waits to be written") }
    }

    func shutdown() {
        let thread = lock.withLock { () -> pthread_t? in
            isStopping = true
            lock.broadcast()
            return self.thread.take()
        }
        if let thread { pthread_join(thread, nil) }
    }

    // MARK: The thread

    private func run() {
        _ = nice(Self.addedNiceness)
        pthread_setname_np(pthread_self(), "recordings")
        while let chunks = takeWaiting() {
            for chunk in chunks { handle(chunk) }
        }
        // The sessions have ended before; what is still open has lost its end.
        for (_, recording) in openRecordings { finish(recording, at: nil) }
        openRecordings = [:]
    }

    /// Waits for chunks; nil: no more come.
    private func takeWaiting() -> [RecordingChunk]? {
        lock.withLock {
            while waiting.isEmpty, !isStopping { lock.wait() }
            guard !waiting.isEmpty else { return nil }
            defer {
                waiting = []
                waitingBytes = 0
            }
            return waiting
        }
    }

    private func handle(_ chunk: RecordingChunk) {
        guard let recording = recording(of: chunk) else { return }
        var isLast = true
        if case .more = chunk.sequel { isLast = false }
        recording.append(chunk, isLast: isLast)
        count(recording)
        guard isLast else { return }
        openRecordings[chunk.sessionID] = nil
        if case .discard = chunk.sequel {
            recording.discard()
            lock.withLock { tally.open -= 1 }
        } else {
            finish(recording, at: chunk.takenAt)
        }
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
        let paths = recording.finish(at: end)
        count(recording)
        lock.withLock {
            tally.open -= 1
            tally.finished += 1
        }
        handleComplete(paths)
    }

    private func count(_ recording: OpenRecording) {
        let (written, dropped) = recording.takeTally()
        lock.withLock {
            tally.writtenBytes += written
            tally.droppedBytes += dropped
        }
        // The operator may have made room meanwhile. Counting a large folder takes time: not each time.
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
    private let base: String
    private let startedAt: Instant
    private let user: TrackFile
    private let agent: TrackFile

    /// - Parameter seconds: when the recording began, since 1970.
    init?(of chunk: RecordingChunk, beginningAt seconds: Int, in folder: RecordingFolder) {
        guard let base = folder.beginRecording(of: chunk.sessionID, at: seconds) else {
            return nil
        }
        let comments = ["PARLEY_SESSION=\(chunk.sessionID)", "PARLEY_STARTED=\(seconds)"]
        guard
            let user = TrackFile(
                at: "\(base).user\(RecordingFolder.ending)", in: folder,
                RecordedTrack(start: chunk.startedAt, jitter: RecordedTrack.jitter),
                comments: comments + ["PARLEY_SIDE=user"])
        else { return nil }
        guard
            let agent = TrackFile(
                at: "\(base).agent\(RecordingFolder.ending)", in: folder,
                RecordedTrack(start: chunk.startedAt, jitter: .zero),
                comments: comments + ["PARLEY_SIDE=agent"])
        else {
            user.discard()
            return nil
        }
        self.base = base
        self.user = user
        self.agent = agent
        startedAt = chunk.startedAt
    }

    func append(_ chunk: RecordingChunk, isLast: Bool) {
        user.append(chunk.user, at: isLast ? nil : chunk.takenAt)
        agent.append(chunk.agent, at: isLast ? nil : chunk.takenAt)
    }

    /// Ends both files at the same position.
    /// - Parameter end: when the recording ended; nil: with the last audio.
    /// - Returns: their paths.
    func finish(at end: Instant?) -> [String] {
        user.append(RecordedAudio(), at: nil)
        agent.append(RecordedAudio(), at: nil)
        let lasted = end.map { max(0, ($0 - startedAt).wholeMilliseconds) } ?? 0
        let samples = max(
            SampleRate.hz48000.samples(inMilliseconds: lasted), user.position, agent.position)
        user.finish(playing: samples)
        agent.finish(playing: samples)
        return RecordingFolder.tracks.map { "\(base).\($0)\(RecordingFolder.ending)" }
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
