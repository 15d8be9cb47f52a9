// The memory of agents at work: suspended tasks with their frames, and the values that they keep of
// their command. A task cannot be measured at run time, so the figures are measured means
// (LoadTests/RESULTS.md). libcurl's memory is counted beside them, and so is the memory that a task
// reports itself (`AgentHost.charge`): bodies of requests, answers that are not complete.

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
    /// Bytes of it as samples of 16 bits, the form for recognisers and services.
    var decodedBytes: Int { HeapBlock.bytes(sampleCount * 2) }
}

extension ModelRequest {
    /// Bytes of a request's list of messages. It shares their texts with the conversation and the
    /// settings. The agent that makes the body for a service charges that, as long as the body
    /// lives.
    var heldBytes: Int {
        messages.reduce(messages.heapBytes) { sum, message in
            if case .userParts(let parts) = message { sum + parts.heapBytes } else { sum }
        }
    }
}
