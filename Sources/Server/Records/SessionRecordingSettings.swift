// Which sessions are recorded. The layer Records has where recordings are kept.

import Codec
import Session

/// Settings of the recordings of sessions.
public struct SessionRecordingSettings: Sendable {
    /// None: a recording needs the consent of those who are heard.
    public var rule = RecordingRule.none
    /// 0: no tone. Where the law wants one, it is usually each 15 s.
    public var beepSeconds = 0

    static let settings: [Setting<Self>] = [
        .choice(
            "recordings", \.rule,
            """
            Which sessions are recorded: none, those whose client says that the user consents \
            (asked), or all: then the operator must have the users' consent by other means. The \
            property recording of a key, or of a token, counts before this.
            """),
        .integer(
            "recording-beep-seconds", \.beepSeconds, 0...3_600, unit: "seconds",
            """
            A tone of 1,400 Hz and 200 ms in the agent's speech says that the session is recorded: \
            at its first words, and at the first words after each so many seconds. 0 is none.
            """),
    ]
}
