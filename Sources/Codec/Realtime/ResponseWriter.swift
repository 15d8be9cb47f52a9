// Writes the response object of `response.created` and `response.done`. Session/Response decides
// its content.

extension JSONWriter {
    /// Writes the protocol's `realtime.response`. Unknown values are `null`.
    mutating func response(_ response: ResponseDescription) {
        beginObject()
        member("object", "realtime.response")
        member("id", response.id)
        member("conversation_id", response.conversationID)
        member("status", response.status.wireName)
        key("status_details")
        statusDetails(response.status)
        key("output")
        beginArray()
        for item in response.output { self.item(item) }
        endArray()
        outputModalities(response.outputModality)
        key("audio")
        beginObject()
        key("output")
        beginObject()
        audioFormat(response.outputFormat)
        member("voice", response.voice)
        endObject()
        endObject()
        maxOutputTokens(response.maxOutputTokens)
        key("usage")
        if let usage = response.usage { self.usage(usage) } else { null() }
        member("metadata", response.metadata)
        endObject()
    }

    private mutating func statusDetails(_ status: ResponseDescription.Status) {
        switch status {
        case .inProgress, .completed:
            null()
        case .cancelled(let reason), .incomplete(let reason):
            beginObject()
            member("type", status.wireName)
            member("reason", reason)
            endObject()
        case .failed(let type, let code, let message):
            beginObject()
            member("type", status.wireName)
            key("error")
            beginObject()
            member("type", type)
            member("code", code)
            member("message", message)
            endObject()
            endObject()
        }
    }

    private mutating func usage(_ usage: ResponseUsage) {
        // The counts come from an upstream model: wrapping addition, because an absurd sum must not
        // trap.
        let inputTokens = usage.inputTextTokens &+ usage.inputAudioTokens
        let outputTokens = usage.outputTextTokens &+ usage.outputAudioTokens
        beginObject()
        member("total_tokens", inputTokens &+ outputTokens)
        member("input_tokens", inputTokens)
        member("output_tokens", outputTokens)
        key("input_token_details")
        beginObject()
        member("text_tokens", usage.inputTextTokens)
        member("audio_tokens", usage.inputAudioTokens)
        member("image_tokens", 0)
        member("cached_tokens", usage.cachedTokens)
        endObject()
        key("output_token_details")
        beginObject()
        member("text_tokens", usage.outputTextTokens)
        member("audio_tokens", usage.outputAudioTokens)
        endObject()
        endObject()
    }
}

extension ResponseDescription.Status {
    /// The protocol's name of the status.
    fileprivate var wireName: String {
        switch self {
        case .inProgress: "in_progress"
        case .completed: "completed"
        case .cancelled: "cancelled"
        case .incomplete: "incomplete"
        case .failed: "failed"
        }
    }
}
