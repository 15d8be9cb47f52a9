// Converts the checked fields of `response` in `response.create` to `ResponseParameters`, and the tools
// that `session.update` has, too. Fields/ResponseFields and GenerationFields have the fields and their
// rules; Session applies them.

extension ResponseParameters: ReadableObject {
    static var schema: ValueSchema { .object(ResponseFields.table) }

    /// Reads the fields of `response`. Unknown fields are ignored, as in `session.update`.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init()
        instructions = try fields.read(ResponseFields.instructions)
        outputModality = try fields.read(GenerationFields.outputModalities)
        tools = try fields.read(GenerationFields.tools)
        mcpTools = try fields.read(GenerationFields.mcpTools)
        toolChoice = try fields.read(GenerationFields.toolChoice)
        mcpToolChoice = try fields.read(GenerationFields.mcpToolChoice) ?? nil
        parallelToolCalls = try fields.read(GenerationFields.parallelToolCalls)
        maxOutputTokens = try fields.patch(GenerationFields.maxOutputTokens)
        input = try fields.read(ResponseFields.input)?.map(\.item)
        metadata = try fields.read(ResponseFields.metadata)
        _ = try fields.read(ResponseFields.reasoning)
        _ = try fields.read(ResponseFields.prompt)
        isInConversation = try fields.read(ResponseFields.conversation) != .outside
        let audio = try fields.read(ResponseFields.audio)
        guard let output = try audio?.read(ResponseAudioFields.output) else { return }
        outputFormat = try output.read(ReplyAudioFields.format)
        outputOpus = try output.read(ReplyAudioFields.opus)
        voice = try output.read(ReplyAudioFields.voice)
    }
}

extension FunctionTool: ReadableObject {
    static var schema: ValueSchema { .object(FunctionToolFields.table) }

    /// Reads one element of `tools`. The protocol allows `type` to be omitted.
    init(_ fields: EventFields) throws(ClientEventError) {
        _ = try fields.read(FunctionToolFields.type)
        let parameters = try fields.read(FunctionToolFields.parameters)
        self.init(
            name: try fields.read(FunctionToolFields.name),
            description: try fields.read(FunctionToolFields.description), parameters: parameters)
    }
}
