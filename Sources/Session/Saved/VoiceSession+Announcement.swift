// The conversation told anew, to a client that has lost events: every item, and the responses in
// flight as far as they have come. After it the client knows what one knows that missed nothing.

import Codec

extension VoiceSession {
    /// Emits the events that make a client without a memory know the conversation.
    public func announceConversation(at now: Instant) {
        begin(at: now)
        announceItems()
        for response in responses { response.announce() }
        finish(at: now)
    }

    /// Emits the events of all items.
    func announceItems() {
        var previous: String?
        for item in conversation.items {
            emit(.conversationItemAdded(item, previousItemID: previous))
            if item.status != .inProgress {
                emit(.conversationItemDone(item, previousItemID: previous))
            }
            previous = item.id
        }
    }
}

extension Response {
    /// Emits the events of the response as far as it has come, with its text in one piece.
    func announce() {
        emit(.responseCreated(description))
        for (index, output) in outputs.enumerated() {
            emit(.responseOutputItemAdded(responseID: id, outputIndex: index, output.item))
            if output.isComplete {
                emit(.responseOutputItemDone(responseID: id, outputIndex: index, output.item))
                continue
            }
            guard !output.isCall else {
                if output.isFunctionCall, !output.text.isEmpty {
                    emit(
                        .responseFunctionCallArgumentsDelta(
                            address(index), callID: output.callID, delta: output.text))
                }
                continue
            }
            emit(.responseContentPartAdded(address(index), output.modality))
            guard !output.text.isEmpty else { continue }
            switch output.modality {
            case .text: emit(.responseOutputTextDelta(address(index), delta: output.text))
            case .audio:
                emit(.responseOutputAudioTranscriptDelta(address(index), delta: output.text))
            }
        }
    }
}
