// Every error that a session reports to its client, one declaration per broken rule, by subject.
// Clients key on `code` and `param`; both are part of the protocol (PROTOCOL.md) and do not change.
// Errors of an event's form, found before the session sees it, are the parser's (Codec).

import Codec

// MARK: The session's settings

extension ClientEventError {
    /// A session stays of the kind that its connection or its first event made it.
    static func sessionTypeIsSettled(
        _ kind: SessionKind, requested: SessionKind
    ) -> Self {
        Self(
            code: "cannot_update_session_type",
            message: "This is a \(kind.rawValue) session and stays one: open "
                + "another connection for a \(requested.rawValue) session.", param: "session.type")
    }

    /// The voice of a conversation does not change once it was heard.
    static func voiceIsSettled(param: String) -> Self {
        Self(
            code: "cannot_update_voice",
            message: "Cannot update a conversation's voice if assistant audio is present.",
            param: param)
    }

    /// A field of realtime sessions in an update of a transcription session.
    static func notOfTranscriptionSession(field: String) -> Self {
        Self(
            code: "unsupported_parameter",
            message: "'session.\(field)' is not a field of a transcription session, which has "
                + "no responses.", param: "session.\(field)")
    }

    /// Turn detection needs the voice activity model, which is not installed.
    static var turnDetectionUnavailable: Self {
        Self(
            code: "turn_detection_unavailable",
            message: "This server has no voice activity model: run `make models`, or set "
                + "turn_detection to null and commit turns.",
            param: "session.audio.input.turn_detection")
    }

    /// The audio kept before speech must leave room for the speech.
    static func prefixPaddingTooLong(mostMilliseconds most: Int) -> Self {
        Self(
            code: "invalid_value",
            message: "prefix_padding_ms is at most \(most), half of the input buffer.",
            param: "session.audio.input.turn_detection.prefix_padding_ms")
    }

    /// A truncation that keeps more tokens than the model's context has room for.
    static func truncationLimitTooHigh(most: Int) -> Self {
        Self(
            code: "invalid_value",
            message: "post_instructions is at most \(most), what the model's context has "
                + "room for beside its reply.",
            param: "session.truncation.token_limits.post_instructions")
    }
}

// MARK: The input audio buffer

extension ClientEventError {
    /// A commit of less audio than the protocol's minimum.
    static func commitTooShort(buffered: Int, minimum: Int) -> Self {
        Self(
            code: "input_audio_buffer_commit_empty",
            message: "Error committing input audio buffer: buffer too small. Expected at "
                + "least \(minimum)ms of audio, but buffer only has "
                + "\(buffered)ms of audio.")
    }

    /// As many turns as `maxAwaitedTranscripts` are being recognised.
    static func tooManyTranscriptions(most: Int) -> Self {
        Self(
            kind: .server, code: "too_many_transcriptions",
            message: "At most \(most) turns can wait for "
                + "their transcript: wait for one.")
    }
}

// MARK: Items

extension ClientEventError {
    /// An image in an item of a session whose model sees none.
    /// - Parameter path: of the content part.
    static func imagesUnsupported(model: String, path: String) -> Self {
        Self(
            code: "unsupported_content_type",
            message: "The model '\(model)' sees no images on this server: a content "
                + "part of type 'input_image' is not supported.",
            param: "\(path).type")
    }

    /// Opus in an item: packets have no boundaries there.
    static var opusInItem: Self {
        Self(
            code: "unsupported_audio",
            message: "An item's audio cannot be audio/opus: append its packets to the input "
                + "audio buffer, one a message.", param: "item.content.audio")
    }
}

// MARK: Responses

extension ClientEventError {
    /// A response in a transcription session.
    static var noResponsesInTranscriptionSession: Self {
        Self(
            code: "unsupported_in_transcription_session",
            message: "A transcription session has no responses: open a connection without "
                + "intent=transcription for them.", param: "type")
    }

    /// The output of a call that is no item of the conversation.
    static func callMissing(_ callID: String) -> Self {
        Self(
            code: "invalid_tool_call_id",
            message: "Tool call ID '\(callID)' not found in conversation. It is the `call_id` of "
                + "the function_call item, not its `id`.", param: "item.call_id")
    }

    /// An agent that the server does not have, or that the caller may not use.
    public static func agentUnusable(param: String) -> Self {
        Self(
            code: "agent_not_found",
            message: "This server has no agent of that name, or the credential may not use it.",
            param: param)
    }

    /// A second response in the conversation.
    static func responseIsActive(_ responseID: String) -> Self {
        Self(
            code: "conversation_already_has_active_response",
            message: "Conversation already has an active response in progress: \(responseID). "
                + "Wait until the response is finished before creating a new one.")
    }

    /// More responses in flight than `maxActiveResponses`.
    static func tooManyResponses(most: Int) -> Self {
        Self(
            code: "too_many_active_responses",
            message: "At most \(most) responses can be in "
                + "flight in one session.")
    }

    /// A response's `input` refers to an item that the conversation does not have.
    /// - Parameter path: of the reference.
    static func referencedItemMissing(_ itemID: String, path: String) -> Self {
        Self(
            code: "invalid_item_reference",
            message: "The conversation has no item with the id '\(itemID)'.",
            param: "\(path).id")
    }

    /// Audio without words in a response's `input`.
    /// - Parameter path: of the content part.
    static func inputAudioWithoutTranscript(path: String) -> Self {
        Self(
            code: "unsupported_audio",
            message: "Audio of a response's input needs its transcript: or create an item "
                + "with it, and refer to that.", param: "\(path).audio")
    }

    /// A cancellation where no such response is in flight.
    static var noResponseToCancel: Self {
        Self(
            code: "response_cancel_not_active",
            message: "Cancellation failed: no active response found", param: "response_id")
    }

    /// `output_audio_buffer.clear` where no response is in flight.
    static var outputBufferEmpty: Self {
        Self(
            code: "output_audio_buffer_empty",
            message: "No response is playing, so there is no output audio to clear.")
    }
}

// MARK: Playing

extension ClientEventError {
    /// A part of a spoken item other than its only one.
    static var notTheSpokenPart: Self {
        Self(
            code: "invalid_value", message: "A spoken item has one part, 0.",
            param: "content_index")
    }

    /// The client says that it has played more than was sent.
    static func playedMoreThanSent(_ itemID: String, mostMilliseconds most: Int) -> Self {
        Self(
            code: "invalid_value",
            message: "Only \(most) ms of the item '\(itemID)' have been sent.",
            param: "audio_end_ms")
    }

    /// The client says that it has played an item that does not exist.
    static func playedItemMissing(_ itemID: String) -> Self {
        Self(
            code: "item_played_invalid_item_id",
            message: "The item with id '\(itemID)' does not exist.", param: "item_id")
    }
}

// MARK: MCP servers

extension ClientEventError {
    /// This server connects sessions to no MCP servers.
    static func mcpUnsupported(path: String) -> Self {
        Self(
            code: "unsupported_tool_type", message: "A tool of type 'mcp' is not supported.",
            param: path)
    }

    /// More MCP servers than `maxToolServers`.
    static func tooManyMCPServers(most: Int, path: String) -> Self {
        Self(
            code: "too_many_mcp_servers",
            message: "At most \(most) MCP servers can be named.",
            param: path)
    }

    /// A label that the operator has not configured, without a URL.
    static func mcpServerUnknown(label: String, path: String) -> Self {
        Self(
            code: "mcp_server_not_found",
            message: "This server knows no MCP server '\(label)': name its "
                + "server_url, or ask the operator to configure it.", param: path)
    }

    /// A URL of the client's, which the operator has not allowed.
    static func mcpServerURLNotAllowed(path: String) -> Self {
        Self(
            code: "mcp_server_url_not_allowed",
            message: "This server does not connect to MCP servers that clients name by their "
                + "server_url.", param: path)
    }

    /// An MCP server did not list its tools.
    static func mcpToolsNotListed(label: String, reason: String) -> Self {
        Self(
            kind: .server, code: "mcp_list_tools_failed",
            message: "The tools of the MCP server '\(label)' cannot "
                + "be listed: \(reason)", param: "session.tools")
    }

    /// An approval of a call that awaits none.
    static func approvalNotAwaited(_ requestID: String) -> Self {
        Self(
            code: "mcp_approval_request_not_found",
            message: "No call waits for the approval of '\(requestID)'.",
            param: "item.approval_request_id")
    }

    /// More responses in a row than `maxAutomaticResponses`, each because tools were called.
    static func tooManyAutomaticResponses(_ most: Int) -> Self {
        Self(
            kind: .server, code: "too_many_automatic_responses",
            message: "\(most) responses in a row have called MCP tools: create a "
                + "response to go on.")
    }
}

extension MCPCallError {
    /// A call to a server that the session's tools do not name any more.
    static var serverNotInUse: Self {
        .execution(message: "The session does not use this MCP server any more.")
    }
}

// MARK: The end of a session, which the server decides

extension ClientEventError {
    /// A session over a WebSocket has reached the time limit of its credential.
    package static var sessionExpired: Self {
        Self(
            code: "session_expired",
            message: "Your session has lasted as long as its credential allows.")
    }

    /// A text request over HTTP has reached the time limit of its credential.
    package static var requestExpired: Self {
        Self(
            code: "session_expired",
            message: "The turn has lasted as long as its credential allows.")
    }

    /// A sideband has sent what only the user's device can say.
    package static var notFromSideband: Self {
        Self(
            code: "unsupported_in_sideband",
            message: "Only the session's own client sends audio, and says what it has played.",
            param: "type")
    }

    /// A session has found its own state broken.
    package static var sessionFailed: Self {
        Self(kind: .server, code: "session_failed", message: "The session has failed.")
    }
}
