// The question about one session that is over, while it is asked. ShardAfterCalls asks it.

import Codec
import Session

/// A question about an ended session, and where its answer goes.
final class AfterCallRequest {
    /// Seconds that the model has. 60: a small model on a processor reads an hour of talk in half of that.
    static let seconds = 60

    let question: AfterCall
    let sessionID: String
    let recorder: SessionRecorder
    /// The conversation that the model will be shown, or nil once the model was asked.
    private var conversation: String?

    init(
        _ question: AfterCall, about conversation: String, of sessionID: String,
        for recorder: SessionRecorder
    ) {
        self.question = question
        self.conversation = conversation
        self.sessionID = sessionID
        self.recorder = recorder
    }

    /// Takes the question, which is asked once.
    func takeQuestion() -> ResponseParameters? {
        conversation.take().map { question.response(about: $0) }
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(AfterCallRequest.self)
    /// Bytes of it. The agent has the question.
    var heldBytes: Int { Self.objectBytes + recorder.heldBytes + conversation.heapBytes }
}
