// The memory of agents at work: the task that AgentLink starts, and the values that it keeps of its
// command. What an agent itself holds while it works (its suspended functions, bodies of requests,
// answers that are not complete) it reports by `AgentHost.charge`; libcurl's memory is counted.

import Codec
import Session

extension AgentWork {
    /// Bytes of a task of AgentLink: its object, the first block of its functions' variables, the
    /// closures, the host. Swift does not say how large a task is; Tests/clients/test_ledger.py
    /// compares the ledger with the heap of the release build.
    static let taskBytes = 2_050
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
