// Log lines about sessions: their start, their end and their failures. The words that were spoken
// are logged only where the operator has asked for it (`log-content`).

import Codec
import Logging

/// Writes log lines about one shard's sessions.
struct SessionLog {
    let logger: Logger
    /// Whether transcripts and replies may be written.
    let includesContent: Bool
    /// Takes failures for the operator's page.
    let failures: RecentFailures

    /// A session began.
    func noteStart(of id: String, _ parameters: SessionParameters) {
        logger.debug(
            "session started",
            metadata: [
                "session": "\(id)", "type": "\(parameters.kind)", "model": "\(parameters.model)",
            ])
    }

    /// A session ended.
    func noteEnd(of id: String) {
        logger.debug("session ended", metadata: ["session": "\(id)"])
    }

    /// Logs an event that goes to the client, where it is worth a line.
    func note(_ event: ServerEvent, of id: String) {
        switch event {
        case .responseDone(let response):
            note(response, of: id)
        case .transcriptionFailed(let itemID, _, let code, let message):
            failures.note(.transcription, of: id, code: code, reason: message)
            logger.warning(
                "transcription failed",
                metadata: [
                    "session": "\(id)", "item": "\(itemID)", "code": "\(code)",
                    "reason": "\(message)",
                ])
        case .transcriptionCompleted(_, _, let transcript, _) where includesContent:
            logger.info("heard", metadata: ["session": "\(id)", "text": "\(transcript)"])
        case .error(let error):
            logger.debug(
                "event refused", metadata: ["session": "\(id)", "code": "\(error.code)"])
        default: break
        }
    }

    private func note(_ response: ResponseDescription, of id: String) {
        if case .failed(_, let code, let message, _) = response.status {
            failures.note(.response, of: id, code: code, reason: message)
            logger.warning(
                "response failed",
                metadata: [
                    "session": "\(id)", "response": "\(response.id)", "code": "\(code)",
                    "reason": "\(message)",
                ])
        }
        guard includesContent else { return }
        for case .message(_, let content) in response.output.map(\.kind) {
            for case .outputText(let text) in content { noteSaid(text, of: id) }
            for case .outputAudio(let transcript) in content { noteSaid(transcript, of: id) }
        }
    }

    private func noteSaid(_ text: String, of id: String) {
        logger.info("said", metadata: ["session": "\(id)", "text": "\(text)"])
    }
}
