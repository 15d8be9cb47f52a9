// The forms in which a session's settings, items and overrides are saved, to be read by another
// process. They are the protocol's own objects. They also have the data that the server never sends
// to a client (secrets of MCP servers, the data of images). Session/Saved decides what is saved.
//
// Invariant: data that are read back are checked like a client's event. Nothing that was saved is
// trusted.

extension JSONWriter {
    /// Writes a session's settings as one object.
    package mutating func savedSettings(_ parameters: SessionParameters) {
        object { json in
            json.member("model", parameters.model)
            json.member("temperature", number: parameters.temperature.value)
            json.key("session")
            json.session(id: "", parameters, in: .ga, keepsSecrets: true)
        }
    }

    /// Writes an item.
    package mutating func savedItem(_ item: ConversationItem) {
        self.item(item, in: .ga, keepsImages: true)
    }

    /// Writes the overrides of a response. The secrets of MCP servers are written, too.
    package mutating func savedOverrides(_ parameters: ResponseParameters) {
        object { json in
            if !parameters.isInConversation { json.member("conversation", "none") }
            if let instructions = parameters.instructions {
                json.member("instructions", instructions)
            }
            if let modality = parameters.outputModality { json.outputModalities(modality) }
            if parameters.tools != nil || parameters.mcpTools != nil {
                json.tools(
                    parameters.tools ?? [], parameters.mcpTools ?? [], keepsSecrets: true)
            }
            if let choice = parameters.mcpToolChoice {
                json.mcpToolChoice(choice)
            } else if let choice = parameters.toolChoice {
                json.toolChoice(choice)
            }
            if let parallel = parameters.parallelToolCalls {
                json.member("parallel_tool_calls", parallel)
            }
            switch parameters.maxOutputTokens {
            case .absent: break
            case .null: json.maxOutputTokens(nil)
            case .value(let limit): json.maxOutputTokens(limit)
            }
            json.savedAudio(of: parameters)
            if let input = parameters.input {
                json.array("input") { json in
                    for item in input { json.savedItem(item) }
                }
            }
            if let metadata = parameters.metadata { json.member("metadata", metadata) }
        }
    }

    private mutating func savedAudio(of parameters: ResponseParameters) {
        object("audio") { json in
            json.object("output") { json in
                if let format = parameters.outputFormat {
                    json.audioFormat(format, opus: parameters.outputOpus ?? OpusSettings())
                }
                if let voice = parameters.voice { json.member("voice", voice) }
            }
        }
    }
}

extension SessionParameters {
    /// Reads saved settings.
    /// - Throws: what `session.update` with these settings would be answered.
    package init(saved value: JSONValue) throws(ClientEventError) {
        let fields = try EventFields(value, path: "")
        self.init(model: value["model"]?.string ?? "")
        guard model.utf8.count <= ClientEventLimits.maxNameBytes else {
            throw .tooMany(
                "model", "bytes", atMost: ClientEventLimits.maxNameBytes, got: model.utf8.count)
        }
        apply(try SessionUpdate(try fields.requiredFields("session")))
        if let temperature = value["temperature"]?.double, Temperature.range.contains(temperature) {
            self.temperature = Temperature(temperature)
        }
    }
}

extension ConversationItem {
    /// Reads a saved item.
    /// - Throws: what `conversation.item.create` with this item would be answered.
    package init(saved value: JSONValue) throws(ClientEventError) {
        try self.init(try EventFields(value, path: "item"))
        guard !id.isEmpty else { throw .missing("item.id") }
    }
}

extension ResponseParameters {
    /// Reads saved overrides.
    /// - Throws: what `response.create` with these overrides would be answered.
    package init(saved value: JSONValue) throws(ClientEventError) {
        try self.init(try EventFields(value, path: "response"))
    }
}
