// What agents at work make the process hold: tasks, which nobody can look into, with their frames
// and what they keep of what they were asked. The figures are means that were measured
// (LoadTests/RESULTS.md). What libcurl holds is counted beside them, and so is what a task says of
// itself (`AgentHost.charge`): bodies of requests, answers that are not complete.

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

extension HeardAudio {
    /// Bytes of it as samples of 16 bits, which a recogniser works on, or a service is sent.
    var decodedBytes: Int { HeapBlock.bytes(sampleCount * 2) }
}

extension ModelRequest {
    /// Bytes that a request takes beside the conversation and the settings whose words it shares:
    /// its list of messages. The body that a service is sent is charged by whoever makes it, as
    /// long as it lives.
    var heldBytes: Int {
        messages.reduce(messages.heapBytes) { sum, message in
            if case .userParts(let parts) = message { sum + parts.heapBytes } else { sum }
        }
    }
}
