// Which sessions are recorded, on the shard's side. The session gathers the audio (SessionRecording),
// the keeper writes it; between them stands nothing but the output `recorded`.
//
// Invariant: without the user's consent no byte is kept, unless the rule is `all`: then the operator
// has it by other means, and the client's word changes nothing.

import Codec
import Session

extension Shard {
    /// The rule of a session: that of its credential, or the server's. Without a keeper none is
    /// recorded.
    private func recordingRule(of live: LiveSession) -> RecordingRule {
        guard services.recordings != nil else { return .none }
        return live.grant?.recording ?? configuration.recordings
    }

    /// A session begins.
    func beginRecording(_ live: LiveSession) {
        if recordingRule(of: live) == .all { startRecording(live) }
    }

    private func startRecording(_ live: LiveSession) {
        let beep = configuration.recordingBeepSeconds
        live.session.beginRecording(beepEvery: beep > 0 ? .seconds(beep) : nil, at: now)
    }

    /// `recording.consent` of a `session.update`: the recording begins, or ends and is thrown away.
    func handleRecordingConsent(
        _ consent: Bool, of live: LiveSession, on connection: Connection
    ) {
        if recordingRule(of: live) == .asked {
            if consent {
                startRecording(live)
            } else if let last = live.session.endRecording(discards: true, at: now) {
                services.recordings?.keep(last)
            }
            perform([.settle, .rearm], on: connection)
        }
        send(.recordingUpdated(isActive: live.session.isRecorded), of: live, on: connection)
    }

    /// A session ends.
    func endRecording(of live: LiveSession) {
        guard let last = live.session.endRecording(at: now) else { return }
        services.recordings?.keep(last)
    }
}
