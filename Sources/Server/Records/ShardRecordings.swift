// Which sessions are recorded, on the shard's side. The session gathers the audio (SessionRecording),
// the keeper writes it; between them stands nothing but the output `recorded`.
//
// Invariant: without the user's consent no byte is kept, unless the rule is `all`: then the operator
// has it by other means, and the client's word changes nothing.

import Codec
import Session

extension Shard {
    /// The rule of a session: its credential's, or the server's. Without a keeper no session is
    /// recorded.
    private func recordingRule(of live: LiveSession) -> RecordingRule {
        guard services.recordings != nil else { return .none }
        return live.grant?.recording ?? configuration.recordings.rule
    }

    /// Whether a session is recorded because its client has said that the user agrees.
    func isRecordedByConsent(_ live: LiveSession) -> Bool {
        live.session.isRecorded && recordingRule(of: live) == .asked
    }

    /// A session begins, or goes on here.
    /// - Parameter hasConsent: whether the user has agreed already: the client secret says so, or
    ///   the session was recorded where it comes from.
    func beginRecording(_ live: LiveSession, hasConsent: Bool) {
        switch recordingRule(of: live) {
        case .none: return
        case .asked: if hasConsent { startRecording(live) }
        case .all: startRecording(live)
        }
    }

    private func startRecording(_ live: LiveSession) {
        let beep = configuration.recordings.beepSeconds
        live.session.beginRecording(
            beepEvery: beep > 0 ? .seconds(beep) : nil, isContinued: live.isContinued, at: now)
    }

    /// `recording.consent` of a `session.update`: the recording begins, or ends and is thrown away.
    func handleRecordingConsent(_ consent: Bool, of live: LiveSession) {
        if recordingRule(of: live) == .asked {
            if consent {
                startRecording(live)
            } else if let last = live.session.endRecording(discards: true, at: now) {
                services.recordings?.keep(last)
            }
        }
        tellWhetherRecorded(live)
    }

    /// Handles a session that another server has recorded. Its client gets an event where this
    /// server does not go on with the recording.
    func noteRecordedElsewhere(_ live: LiveSession) {
        guard !live.session.isRecorded else { return }
        tellWhetherRecorded(live)
    }

    private func tellWhetherRecorded(_ live: LiveSession) {
        let event = ServerEvent.recordingUpdated(isActive: live.session.isRecorded)
        live.resume?.stored?.note(event, at: now)
        review(live)
        send(event, of: live)
    }

    /// A session ends.
    func endRecording(of live: LiveSession) {
        guard let last = live.session.endRecording(at: now) else { return }
        services.recordings?.keep(last)
    }
}
