// Gathers the audio of one recorded session: packets of the user as they come, and of the agent as it
// is played (PlayedTrack). About once a second VoiceSession takes a chunk of it for the keeper, which
// does everything else. A recording changes nothing in the session: it listens.
//
// Invariant: a packet costs an append to a buffer that the recording owns; it gathers at most the
// audio of a second, or `maxChunkBytes` and one input.

import Codec

/// The recording of one session. Confined to its shard's thread.
final class SessionRecording {
    /// Time in which audio gathers. A second: less is lost where the process is killed.
    static let interval = Duration.seconds(1)
    /// Bytes from which a chunk is taken early. 256 KiB: five seconds of PCM.
    static let maxChunkBytes = 256 << 10

    /// When it began.
    let startedAt: Instant
    /// The agent's side.
    let agent = PlayedTrack()
    private let sessionID: String
    private let isContinued: Bool
    private var user = RecordedAudio()
    /// When a chunk is next taken, or nil where there is nothing to take.
    private(set) var deadline: Instant?

    /// - Parameter isContinued: whether there may be other recordings of the session.
    init(of sessionID: String, isContinued: Bool, at now: Instant) {
        self.sessionID = sessionID
        self.isContinued = isContinued
        startedAt = now
    }

    private static let objectBytes =
        HeapBlock.object(SessionRecording.self) + HeapBlock.object(PlayedTrack.self)
    /// Bytes of the whole recording.
    var heldBytes: Int { Self.objectBytes + user.heldBytes + agent.heldBytes }

    /// Takes a packet, or a run of samples, that the session hears.
    /// - Parameter missing: packets that were lost before it.
    func noteUser(_ payload: RawSpan, format: AudioFormat, missing: Int?, at now: Instant) {
        user.append(payload, format: format, missing: missing ?? 0, end: now)
        plan(at: now)
    }

    /// Plans to take the audio of an input of the session that is over.
    func plan(at now: Instant) {
        guard deadline == nil, !user.isEmpty || !agent.isEmpty else { return }
        deadline = now + Self.interval
    }

    /// Whether a chunk is to be taken now.
    func isDue(at now: Instant) -> Bool {
        guard let deadline else { return false }
        return deadline <= now || user.size + agent.size >= Self.maxChunkBytes
    }

    /// Takes the audio that has gathered.
    func takeChunk(_ sequel: RecordingChunk.Sequel = .more, at now: Instant) -> RecordingChunk {
        defer {
            user = RecordedAudio()
            deadline = nil
            plan(at: now)
        }
        return RecordingChunk(
            sessionID: sessionID, isContinued: isContinued, startedAt: startedAt, takenAt: now,
            user: user, agent: agent.take(), sequel: sequel)
    }
}
