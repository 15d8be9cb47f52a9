// The port to what keeps recordings of sessions: files in a folder. The layer Records implements it.
// SessionRecording makes the chunks; RecordedTrack places their audio on a timeline.

import Codec

/// Keeps the audio of recorded sessions. Any thread.
public protocol RecordingKeeper: Sendable {
    /// Takes the next chunk of a session. It returns at once: another thread writes. Audio for which
    /// there is no room is dropped and counted, and leaves a gap of its length. The end of a
    /// recording is always taken.
    func keep(_ chunk: RecordingChunk)

    /// Its counts now.
    var counts: RecordingCounts { get }

    /// Writes the audio that waits, closes all files, and ends. It may take seconds.
    func shutdown()
}

/// The audio of a session since its last chunk.
public struct RecordingChunk: Sendable {
    /// Whether more of the recording follows.
    public enum Sequel: Equatable, Sendable {
        /// More of the recording.
        case more
        /// Nothing: the recording is complete.
        case end
        /// Nothing, and the recording is to be deleted: the user has withdrawn the consent.
        case discard
    }

    /// `sess_…`
    public let sessionID: String
    /// Whether the session was restored, here or from elsewhere, so that there may be other
    /// recordings of it.
    public let isContinued: Bool
    /// When the recording began: the origin of its timeline.
    public let startedAt: Instant
    /// When the chunk was taken.
    public let takenAt: Instant
    /// The user as heard.
    public var user: RecordedAudio
    /// The agent as played.
    public var agent: RecordedAudio
    /// Whether more of the recording follows.
    public var sequel = Sequel.more

    /// Creates a chunk.
    public init(
        sessionID: String, isContinued: Bool = false, startedAt: Instant, takenAt: Instant,
        user: RecordedAudio, agent: RecordedAudio, sequel: Sequel = .more
    ) {
        (self.sessionID, self.isContinued) = (sessionID, isContinued)
        (self.startedAt, self.takenAt) = (startedAt, takenAt)
        (self.user, self.agent, self.sequel) = (user, agent, sequel)
    }

    /// Bytes of its audio.
    public var audioBytes: Int { user.bytes.count + agent.bytes.count }
    /// Bytes that it takes while it waits.
    public var heldBytes: Int { 256 + user.heldBytes + agent.heldBytes }
}

/// Runs of one side's audio, each an Opus packet or samples, in one block of memory.
public struct RecordedAudio: Equatable, Sendable {
    /// A run's place in time.
    public struct Run: Equatable, Sendable {
        /// When it had come, or had been played, to its end.
        public var end: Instant
        /// Samples at 48 kHz that were lost before it.
        public var lost: Int32
        /// How long it lasts, in samples at 48 kHz.
        public var samples: Int32
        /// Its bytes in `bytes`.
        public var byteCount: Int32
        /// How it is encoded.
        public var format: AudioFormat
    }

    /// The runs in order.
    public private(set) var runs: [Run] = []
    /// The bytes of all runs.
    public private(set) var bytes: [UInt8] = []

    /// Nothing.
    public init() {}

    /// Whether there is no run.
    public var isEmpty: Bool { runs.isEmpty }
    /// Bytes on the heap.
    var heldBytes: Int { runs.heapBytes + bytes.heapBytes }
    /// Bytes of the runs and of what describes them: a run may be a single sample.
    var size: Int { bytes.count + runs.count * MemoryLayout<Run>.stride }

    /// Appends a run. A run that is no packet, or no whole number of samples, is left out. The time
    /// of such a packet counts as lost.
    /// - Parameters:
    ///   - missing: packets like this that were lost before it.
    ///   - end: when it had completely come, or had been played to its end.
    public mutating func append(
        _ payload: RawSpan, format: AudioFormat, missing: Int = 0, end: Instant
    ) {
        guard let samples = format.samples(in: payload) else { return }
        append(payload, format: format, samples: samples, lost: missing * samples, end: end)
    }

    mutating func append(
        _ payload: RawSpan, format: AudioFormat, samples: Int, lost: Int = 0, end: Instant
    ) {
        payload.withUnsafeBytes { bytes.append(contentsOf: $0) }
        runs.append(
            Run(
                end: end, lost: Int32(clamping: lost), samples: Int32(clamping: samples),
                byteCount: Int32(clamping: payload.byteCount), format: format))
    }
}

extension AudioFormat {
    /// How long a payload lasts, in samples at 48 kHz; nil where it is not of this format.
    fileprivate func samples(in payload: RawSpan) -> Int? {
        guard self != .opus else {
            return try? OpusDecoder.sampleCount(of: payload, at: .hz48000)
        }
        guard payload.byteCount > 0, payload.byteCount % bytesPerSample == 0 else { return nil }
        return payload.byteCount / bytesPerSample * (SampleRate.hz48000.hertz / sampleRate.hertz)
    }
}

/// The counts of a keeper since the start, and the open and waiting ones now.
public struct RecordingCounts: Equatable, Sendable {
    /// Recordings in progress.
    public var open = 0
    /// Recordings that are complete.
    public var finished = 0
    /// Bytes that were written to files.
    public var writtenBytes = 0
    /// Bytes of audio that were dropped: too much waited, or the folder was full.
    public var droppedBytes = 0
    /// Bytes of the folder's files.
    public var folderBytes = 0
    /// Files that wait to be uploaded.
    public var pendingUploads = 0
    /// Files that were uploaded.
    public var uploads = 0
    /// Attempts to upload that failed. The files wait for another.
    public var failedUploads = 0
    /// Uploaded files that wait to be deleted where they are.
    public var pendingErasures = 0
    /// Uploaded files that were deleted there.
    public var erasures = 0
    /// Attempts to delete them that failed. The files wait for another.
    public var failedErasures = 0

    /// All zero.
    public init() {}
}
