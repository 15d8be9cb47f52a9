// Writes the response object of `response.created` and `response.done`. Session/Response decides
// its content.

extension JSONWriter {
    /// Writes the protocol's `realtime.response`. Unknown values are `null`.
    mutating func response(_ response: ResponseDescription, in dialect: RealtimeDialect) {
        object { json in
            json.member("object", "realtime.response")
            json.member("id", response.id)
            json.member("conversation_id", response.conversationID)
            json.member("status", response.status.wireName)
            json.key("status_details")
            json.statusDetails(response.status)
            json.array("output") { json in
                for item in response.output { json.item(item, in: dialect) }
            }
            switch dialect {
            case .ga: json.replySettings(response)
            case .beta: json.betaReplySettings(response)
            }
            json.maxOutputTokens(response.maxOutputTokens)
            json.key("usage")
            if let usage = response.usage { json.usage(usage) } else { json.null() }
            json.member("metadata", response.metadata)
        }
    }

    private mutating func replySettings(_ response: ResponseDescription) {
        outputModalities(response.outputModality)
        object("audio") { json in
            json.object("output") { json in
                json.audioFormat(response.outputFormat)
                json.member("voice", response.voice)
            }
        }
    }

    /// Writes the protocol's `status_details` of a response.
    package mutating func statusDetails(_ status: ResponseDescription.Status) {
        switch status {
        case .inProgress, .completed:
            null()
        case .cancelled(let reason), .incomplete(let reason):
            object { json in
                json.member("type", status.wireName)
                json.member("reason", reason)
            }
        case .failed(let type, let code, let message, _):
            object { json in
                json.member("type", status.wireName)
                json.object("error") { json in
                    json.member("type", type)
                    json.member("code", code)
                    json.member("message", message)
                }
            }
        }
    }

    /// Writes the protocol's `usage` of a response.
    package mutating func usage(_ usage: ResponseUsage) {
        // The counts come from an upstream model: wrapping addition, because an absurd sum must not
        // trap.
        let inputTokens = usage.inputTextTokens &+ usage.inputAudioTokens
        let outputTokens = usage.outputTextTokens &+ usage.outputAudioTokens
        object { json in
            json.member("total_tokens", inputTokens &+ outputTokens)
            json.member("input_tokens", inputTokens)
            json.member("output_tokens", outputTokens)
            json.object("input_token_details") { json in
                json.member("text_tokens", usage.inputTextTokens)
                json.member("audio_tokens", usage.inputAudioTokens)
                json.member("image_tokens", 0)
                json.member("cached_tokens", usage.cachedTokens)
            }
            json.object("output_token_details") { json in
                json.member("text_tokens", usage.outputTextTokens)
                json.member("audio_tokens", usage.outputAudioTokens)
            }
        }
    }
}

extension ResponseDescription.Status {
    /// The protocol's name of the status.
    package var wireName: String {
        switch self {
        case .inProgress: "in_progress"
        case .completed: "completed"
        case .cancelled: "cancelled"
        case .incomplete: "incomplete"
        case .failed: "failed"
        }
    }
}
