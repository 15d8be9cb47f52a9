// The `response` object of `response.create`: from checked fields to `ResponseParameters`. What a
// response does with them is in Session.

extension ResponseParameters {
    /// Reads the fields of `response`. Fields that are not named here are ignored, as in
    /// `session.update`.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init()
        instructions = try fields.text("instructions")
        outputModality = try fields.outputModality("output_modalities")
        tools = try fields.tools("tools")
        toolChoice = try fields.toolChoice("tool_choice")
        parallelToolCalls = try fields.bool("parallel_tool_calls")
        maxOutputTokens = try fields.patch("max_output_tokens", fields.maxOutputTokens)
        input = try fields.list(
            "input", atMost: fields.limits.maxInputItems, ConversationItem.init)
        metadata = try fields.metadata("metadata")
        isInConversation = try fields.choice("conversation", ConversationChoice.self) != .outside
        guard let output = try fields.fields("audio")?.fields("output") else { return }
        outputFormat = try output.audioFormat("format")
        outputOpus = try output.opusSettings("format")
        voice = try output.voice("voice")
    }

    private enum ConversationChoice: String, CaseIterable {
        case inside = "auto"
        case outside = "none"
    }
}

extension EventFields {
    /// `metadata`: up to 16 short texts, echoed as they came.
    fileprivate func metadata(_ key: StaticString) throws(ClientEventError) -> RawJSON? {
        guard let fields = try fields(key), let members = fields.object.members else { return nil }
        guard fields.object.count <= limits.maxMetadataPairs else {
            throw .invalid(
                fields.path,
                "expected at most \(limits.maxMetadataPairs) pairs, got \(fields.object.count)")
        }
        for (name, value) in members {
            guard name.utf8.count <= limits.maxNameBytes else {
                throw .invalid(fields.path, "a key is longer than \(limits.maxNameBytes) bytes")
            }
            _ = try self.name(value, "\(fields.path).\(name)")
        }
        return try raw(fields.object, fields.path)
    }
}
