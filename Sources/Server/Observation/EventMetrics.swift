// The number that counts each event. The classes are those of the events' names on the wire.

import Codec
import Session

extension ClientEvent {
    /// The class of the event.
    var metric: ShardMetric {
        switch self {
        case .sessionUpdate, .ping: .eventsInSession
        case .inputAudioBufferAppend, .inputAudioBufferCommit, .inputAudioBufferClear:
            .eventsInAudio
        case .conversationItemCreate, .conversationItemDelete, .conversationItemRetrieve,
            .conversationItemTruncate:
            .eventsInConversation
        case .responseCreate, .responseCancel: .eventsInResponse
        case .outputAudioBufferClear, .outputAudioBufferPlayed: .eventsInOutputAudio
        }
    }
}

extension ServerEvent {
    /// The class of the event.
    var metric: ShardMetric {
        switch self {
        case .error: .eventsOutError
        case .sessionCreated, .sessionUpdated, .resumed, .resumeUpdated, .goingAway,
            .recordingUpdated, .pong:
            .eventsOutSession
        case .inputAudioBufferSpeechStarted, .inputAudioBufferSpeechStopped,
            .inputAudioBufferCommitted, .inputAudioBufferCleared,
            .inputAudioBufferTimeoutTriggered, .dtmfReceived:
            .eventsOutInputAudio
        case .conversationItemAdded, .conversationItemDone, .conversationItemDeleted,
            .conversationItemRetrieved, .conversationItemTruncated, .transcriptionDelta,
            .transcriptionCompleted, .transcriptionFailed:
            .eventsOutConversation
        case .responseCreated, .responseDone, .responseOutputItemAdded, .responseOutputItemDone,
            .responseContentPartAdded, .responseContentPartDone, .responseOutputTextDelta,
            .responseOutputTextDone, .responseOutputAudioTranscriptDelta,
            .responseOutputAudioTranscriptDone, .responseOutputAudioDelta,
            .responseOutputAudioDone, .responseFunctionCallArgumentsDelta,
            .responseFunctionCallArgumentsDone, .agentEvent:
            .eventsOutResponse
        case .mcp(let event):
            switch event {
            case .listToolsInProgress, .listToolsCompleted, .listToolsFailed:
                .eventsOutConversation
            case .callArgumentsDelta, .callArgumentsDone, .callInProgress, .callCompleted,
                .callFailed:
                .eventsOutResponse
            }
        case .rateLimitsUpdated: .eventsOutRateLimits
        case .outputAudioBufferCleared: .eventsOutOutputAudio
        }
    }
}

extension TurnHop {
    /// The distribution that the hop's durations go into.
    var histogram: ShardHistogram {
        switch self {
        case .transcript: .transcript
        case .firstToken: .firstToken
        case .firstAudio: .firstAudio
        }
    }
}
