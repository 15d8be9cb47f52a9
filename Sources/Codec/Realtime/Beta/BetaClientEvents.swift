// Converts the checked fields of the beta's client events to the events of today. Events that the
// beta writes as today are ClientEventParser's.

/// The client events that differ in the beta.
enum BetaClientEvents: String, CaseIterable {
    case sessionUpdate = "session.update"
    case transcriptionSessionUpdate = "transcription_session.update"
    case conversationItemCreate = "conversation.item.create"
    case responseCreate = "response.create"

    /// Reads the event.
    func event(_ fields: EventFields) throws(ClientEventError) -> ClientEvent {
        switch self {
        case .sessionUpdate:
            return .sessionUpdate(try SessionUpdate(beta: fields.requiredFields("session")))
        case .transcriptionSessionUpdate:
            let session = try fields.requiredFields("session")
            return .sessionUpdate(try SessionUpdate(betaTranscription: session))
        case .conversationItemCreate:
            return .conversationItemCreate(
                item: try ConversationItem(fields.requiredFields("item"), in: .beta),
                previousItemID: try fields.read(ItemCreateFields.previousItemID))
        case .responseCreate:
            guard let response = try fields.fields("response") else {
                return .responseCreate(ResponseParameters())
            }
            return .responseCreate(try ResponseParameters(beta: response))
        }
    }
}

extension SessionUpdate {
    /// Reads the fields of a session.
    init(beta fields: EventFields) throws(ClientEventError) {
        self.init()
        _ = try fields.read(SessionFields.model)
        instructions = try fields.patch(SessionFields.instructions)
        outputModality = try fields.patch(BetaGenerationFields.modalities)
        voice = try fields.patch(ReplyAudioFields.voice)
        outputFormat = try fields.patch(BetaGenerationFields.outputFormat)
        // A format by its name has the defaults for the rest, as a format without its fields today.
        if outputFormat != .absent { outputOpus = .null }
        tools = try fields.patch(GenerationFields.tools)
        mcpTools = try fields.patch(GenerationFields.mcpTools)
        toolChoice = try fields.patch(BetaGenerationFields.toolChoice)
        mcpToolChoice = try fields.patch(GenerationFields.mcpToolChoice)
        temperature = try fields.patch(BetaGenerationFields.temperature)
        maxOutputTokens = try fields.patch(BetaSessionFields.maxOutputTokens)
        speed = try fields.patch(OutputAudioFields.speed)
        tracing = try fields.patch(SessionFields.tracing)
        try readInput(beta: fields)
    }

    /// Reads the fields of a transcription session.
    init(betaTranscription fields: EventFields) throws(ClientEventError) {
        self.init()
        kind = .transcription
        _ = try fields.read(BetaGenerationFields.modalities)
        _ = try fields.read(SessionFields.include)
        try readInput(beta: fields)
    }

    private mutating func readInput(beta fields: EventFields) throws(ClientEventError) {
        inputFormat = try fields.patch(BetaSessionFields.inputFormat)
        if inputFormat != .absent { inputIsNumbered = .null }
        transcription = try fields.patch(BetaSessionFields.transcription)
        noiseReduction = try fields.patch(BetaSessionFields.noiseReduction)
        turnDetection = try fields.patch(InputAudioFields.turnDetection)
    }
}

extension ResponseParameters {
    /// Reads the fields of `response`. The beta's documents have one name of the limit for
    /// requests, and one for answers; clients send either.
    init(beta fields: EventFields) throws(ClientEventError) {
        self.init()
        instructions = try fields.read(ResponseFields.instructions)
        outputModality = try fields.read(BetaGenerationFields.modalities)
        voice = try fields.read(ReplyAudioFields.voice)
        outputFormat = try fields.read(BetaGenerationFields.outputFormat)
        if outputFormat != nil { outputOpus = OpusSettings() }
        tools = try fields.read(GenerationFields.tools)
        mcpTools = try fields.read(GenerationFields.mcpTools)
        toolChoice = try fields.read(BetaGenerationFields.toolChoice)
        mcpToolChoice = try fields.read(GenerationFields.mcpToolChoice) ?? nil
        temperature = try fields.read(BetaGenerationFields.temperature)
        maxOutputTokens = try fields.patch(BetaSessionFields.maxOutputTokens)
        if maxOutputTokens == .absent {
            maxOutputTokens = try fields.patch(GenerationFields.maxOutputTokens)
        }
        input = try fields.list("input", atMost: ClientEventLimits.maxInputItems) {
            (item) throws(ClientEventError) in try ResponseInputItem(item, in: .beta).item
        }
        metadata = try fields.read(ResponseFields.metadata)
        isInConversation = try fields.read(ResponseFields.conversation) != .outside
    }
}
