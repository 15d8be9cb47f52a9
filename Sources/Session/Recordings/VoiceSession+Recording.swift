// Beginning and ending the recording of a session, and the chunks of it. Whether a session may be
// recorded is the shell's decision.

import Codec

extension VoiceSession {
    /// The recording in progress, or nil where the session is not recorded.
    var recording: SessionRecording? {
        isRecorded ? context.recordings[ObjectIdentifier(self)] : nil
    }

    /// Begins to record the session. Nothing changes where it is recorded already. It makes no
    /// output.
    /// - Parameters:
    ///   - beepInterval: how often a tone in the agent's speech says that the session is recorded.
    ///     Nil where it never does.
    ///   - isContinued: whether other servers may have other recordings of the session.
    public func beginRecording(
        beepEvery beepInterval: Duration? = nil, isContinued: Bool = false, at now: Instant
    ) {
        guard !isRecorded else { return }
        let recording = SessionRecording(of: id, isContinued: isContinued, at: now)
        recording.agent.beep = beepInterval.map { RecordingBeep(every: $0, from: now) }
        context.recordings[ObjectIdentifier(self)] = recording
        isRecorded = true
        playback?.timeline?.played = recording.agent
    }

    /// Ends the recording. It makes no output.
    /// - Parameter discards: whether the recording is to be deleted.
    /// - Returns: its last chunk, or nil where the session is not recorded.
    public func endRecording(discards: Bool = false, at now: Instant) -> RecordingChunk? {
        guard let recording else { return nil }
        if let timeline = playback?.timeline {
            timeline.settlePlayed(isCut: true, at: now)
            timeline.played = nil
        }
        forgetRecording()
        return recording.takeChunk(discards ? .discard : .end, at: now)
    }

    /// Emits a chunk of the recording where that is due.
    func emitRecorded(at now: Instant) {
        guard let recording else { return }
        recording.plan(at: now)
        guard recording.isDue(at: now) else { return }
        // The client may yet report that it has heard less of a reply that is held.
        if let timeline = playback?.timeline, !timeline.isHeld { timeline.settlePlayed(at: now) }
        context.outputs.append(.recorded(recording.takeChunk(at: now)))
    }

    /// The session is not recorded any more.
    func forgetRecording() {
        guard isRecorded else { return }
        context.recordings[ObjectIdentifier(self)] = nil
        isRecorded = false
    }
}
