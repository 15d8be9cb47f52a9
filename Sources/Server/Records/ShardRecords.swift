// Records of a shard's sessions: which sessions have one, when a change is due, and why a session has
// ended. SessionRecorder decides what is in a change; the keeper writes it elsewhere.

import Codec
import Session

extension SessionEnd {
    /// The server closes a WebSocket.
    init(closing code: WebSocketCloseCode, _ message: StaticString) {
        self.init(
            code == .takenOver ? .continuedElsewhere : .serverClosed, closeCode: code,
            message: "\(message)")
    }
}

extension Shard {
    /// Begins the record of a session that begins, where records are kept.
    /// - Parameters:
    ///   - fence: 1 for a new session, otherwise the fence of its claim.
    ///   - call: the telephone call of the session, if it has one.
    func beginRecord(
        of session: VoiceSession, fence: UInt64 = 1, owner: SessionOwner, call: TelephoneCall? = nil
    ) {
        guard let keeper = services.records else { return }
        var summary = SessionSummary(startedAt: now)
        summary.isContinued = fence > 1
        summary.principal = owner.principal?.hexadecimal()
        summary.subject = owner.subject
        summary.agent = session.agentName
        summary.call = call
        let recorder = SessionRecorder(keeper: keeper, fence: fence, summary, at: now)
        for item in session.itemIDs { recorder.note(item, at: now) }
        session.recorder = recorder
    }

    /// Keeps the changes of a session, if they are due.
    func reviewRecord(of live: LiveSession) {
        guard let recorder = live.session.recorder, let due = recorder.deadline, due <= now
        else { return }
        // Without an input the session does not know what of its audio has left.
        if live.session.isReplyPlaying {
            step(live) { $0.handleDeadline(at: now) }
            guard !live.hasEnded else { return }
        }
        recorder.keepChange(of: live.session, at: now)
        review(live)
    }

    /// Notes why a session ends, as soon as that is known.
    func noteEnd(_ end: SessionEnd, of live: LiveSession?) {
        live?.session.recorder?.noteEnd(end)
    }

    /// A session has ended: the rest of its record is kept, and its agent's model may be asked about it.
    func endRecord(_ recorder: SessionRecorder, of live: LiveSession) {
        let question = recorder.goesOnElsewhere ? nil : afterCall(of: live, recorder)
        recorder.keepEnd(of: live.session, awaitsAnswer: question != nil, at: now)
        live.session.recorder = nil
        if let question { begin(question, after: live) }
    }
}
