// What agents at work make the process hold: tasks, which nobody can look into, with their frames
// and what they keep of what they were asked. The figures are means that were measured
// (LoadTests/RESULTS.md); what libcurl holds is counted beside them.

import Codec
import Session

extension AgentWork.Purpose {
    /// Bytes of a suspended task, its frames and the objects that only it refers to.
    var taskBytes: Int {
        switch self {
        case .model: 6_000
        case .speech, .transcription, .hypothesis, .encoding: 3_000
        case .toolList, .toolCall: 6_000
        }
    }
}

extension ModelRequest {
    /// Bytes that a request takes beside the conversation whose words it shares: its list of
    /// messages, and the body that a service is sent, which is kept in case that it must be sent
    /// again.
    var heldBytes: Int {
        let words = messages.reduce(instructions.utf8.count) { $0 + $1.wordBytes + 40 }
        let functions = tools.reduce(0) {
            $0 + $1.name.utf8.count + ($1.description?.utf8.count ?? 0)
                + ($1.parameters?.text.utf8.count ?? 0) + 60
        }
        return messages.heapBytes + HeapBlock.bytes(words + functions + 200)
    }
}

extension ModelMessage {
    /// UTF-8 bytes of what a service is sent of it. Audio and images are what they are as base64.
    fileprivate var wordBytes: Int {
        switch self {
        case .system(let text), .user(let text), .assistant(let text): text.utf8.count
        case .functionCall(let callID, let name, let arguments):
            callID.utf8.count + name.utf8.count + arguments.utf8.count
        case .functionOutput(let callID, let output): callID.utf8.count + output.utf8.count
        case .userAudio(let audio): audio.sampleCount * 8 / 3
        case .userParts(let parts):
            parts.reduce(0) { sum, part in
                switch part {
                case .text(let text): sum + text.utf8.count
                case .image(let url, _): sum + url.utf8.count
                case .audio(let audio): sum + audio.sampleCount * 8 / 3
                }
            }
        }
    }
}
