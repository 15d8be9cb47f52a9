// A session's events as one viewer sees them: the client, which serves no private function, or a
// sideband, which serves those that it named. Private tools, calls and outputs of others are left
// out, and what refers to them is written as if they were not there. Pure.

import Codec

extension PrivateCalls {
    /// An event as a viewer sees it, or nil where the viewer does not see it.
    /// - Parameter tools: the private functions that the viewer serves.
    func view(of event: ServerEvent, for tools: [String]) -> ServerEvent? {
        guard !isEmpty else { return event }
        switch event {
        case .sessionCreated(let id, let parameters):
            return .sessionCreated(id: id, view(of: parameters, for: tools))
        case .sessionUpdated(let id, let parameters):
            return .sessionUpdated(id: id, view(of: parameters, for: tools))
        case .responseCreated(let response):
            return .responseCreated(view(of: response, for: tools))
        case .responseDone(let response): return .responseDone(view(of: response, for: tools))
        case .inputAudioBufferCommitted(let itemID, let previous):
            return .inputAudioBufferCommitted(
                itemID: itemID, previousItemID: visible(previous, to: tools))
        case .conversationItemAdded(let item, let previous):
            guard !isHidden(item.id, from: tools) else { return nil }
            return .conversationItemAdded(item, previousItemID: visible(previous, to: tools))
        case .conversationItemDone(let item, let previous):
            guard !isHidden(item.id, from: tools) else { return nil }
            return .conversationItemDone(item, previousItemID: visible(previous, to: tools))
        case .conversationItemDeleted(let itemID):
            return isHidden(itemID, from: tools) ? nil : event
        case .conversationItemRetrieved(let item):
            return isHidden(item.id, from: tools) ? nil : event
        case .responseOutputItemAdded(let responseID, let index, let item):
            guard !isHidden(item.id, from: tools) else { return nil }
            return .responseOutputItemAdded(
                responseID: responseID,
                outputIndex: visibleIndex(index, in: responseID, to: tools), item)
        case .responseOutputItemDone(let responseID, let index, let item):
            guard !isHidden(item.id, from: tools) else { return nil }
            return .responseOutputItemDone(
                responseID: responseID,
                outputIndex: visibleIndex(index, in: responseID, to: tools), item)
        case .mcp(let event): return .mcp(view(of: event, for: tools))
        case .responseContentPartAdded, .responseContentPartDone, .responseOutputTextDelta,
            .responseOutputTextDone, .responseOutputAudioTranscriptDelta,
            .responseOutputAudioTranscriptDone, .responseOutputAudioDelta,
            .responseOutputAudioDone, .responseFunctionCallArgumentsDelta,
            .responseFunctionCallArgumentsDone:
            return viewOfPart(event, for: tools)
        // A handle is the client's alone, and these say nothing else.
        case .resumed, .resumeUpdated, .goingAway: return nil
        // None of these can name a private item.
        case .error, .inputAudioBufferSpeechStarted, .inputAudioBufferSpeechStopped,
            .inputAudioBufferCleared, .inputAudioBufferTimeoutTriggered,
            .conversationItemTruncated, .transcriptionDelta, .transcriptionCompleted,
            .transcriptionFailed, .rateLimitsUpdated, .outputAudioBufferCleared, .agentEvent,
            .recordingUpdated, .dtmfReceived, .pong:
            return event
        }
    }

    /// Events about a part of a response's item.
    private func viewOfPart(_ event: ServerEvent, for tools: [String]) -> ServerEvent? {
        func moved(_ address: PartAddress) -> PartAddress { self.moved(address, for: tools) }
        switch event {
        case .responseContentPartAdded(let address, let modality):
            return .responseContentPartAdded(moved(address), modality)
        case .responseContentPartDone(let address, let modality, let text):
            return .responseContentPartDone(moved(address), modality, text: text)
        case .responseOutputTextDelta(let address, let delta):
            return .responseOutputTextDelta(moved(address), delta: delta)
        case .responseOutputTextDone(let address, let text):
            return .responseOutputTextDone(moved(address), text: text)
        case .responseOutputAudioTranscriptDelta(let address, let delta):
            return .responseOutputAudioTranscriptDelta(moved(address), delta: delta)
        case .responseOutputAudioTranscriptDone(let address, let transcript):
            return .responseOutputAudioTranscriptDone(moved(address), transcript: transcript)
        case .responseOutputAudioDelta(let address, let audio, let start):
            return .responseOutputAudioDelta(
                moved(address), audio: audio, startMilliseconds: start)
        case .responseOutputAudioDone(let address):
            return .responseOutputAudioDone(moved(address))
        case .responseFunctionCallArgumentsDelta(let address, let callID, let delta):
            guard !isHidden(address.itemID, from: tools) else { return nil }
            return .responseFunctionCallArgumentsDelta(
                moved(address), callID: callID, delta: delta)
        case .responseFunctionCallArgumentsDone(let address, let callID, let name, let arguments):
            guard !isHidden(address.itemID, from: tools) else { return nil }
            return .responseFunctionCallArgumentsDone(
                moved(address), callID: callID, name: name, arguments: arguments)
        default: return event
        }
    }

    /// The session as a viewer sees it.
    func view(of parameters: SessionParameters, for tools: [String]) -> SessionParameters {
        guard parameters.tools.contains(where: { hidesFunction($0.name, from: tools) })
        else { return parameters }
        var shown = parameters
        shown.tools.removeAll { hidesFunction($0.name, from: tools) }
        if case .function(let name) = shown.toolChoice, hidesFunction(name, from: tools) {
            shown.toolChoice = .auto
        }
        return shown
    }

    private func view(
        of response: ResponseDescription, for tools: [String]
    ) -> ResponseDescription {
        var shown = response
        shown.output.removeAll { isHidden($0.id, from: tools) }
        return shown
    }

    private func view(of event: MCPEvent, for tools: [String]) -> MCPEvent {
        func moved(_ index: Int) -> Int { visibleIndex(index, in: nil, to: tools) }
        switch event {
        case .listToolsInProgress, .listToolsCompleted, .listToolsFailed: return event
        case .callArgumentsDelta(let address, let delta):
            return .callArgumentsDelta(self.moved(address, for: tools), delta: delta)
        case .callArgumentsDone(let address, let arguments):
            return .callArgumentsDone(self.moved(address, for: tools), arguments: arguments)
        case .callInProgress(let itemID, let index):
            return .callInProgress(itemID: itemID, outputIndex: moved(index))
        case .callCompleted(let itemID, let index):
            return .callCompleted(itemID: itemID, outputIndex: moved(index))
        case .callFailed(let itemID, let index):
            return .callFailed(itemID: itemID, outputIndex: moved(index))
        }
    }

    func moved(_ address: PartAddress, for tools: [String]) -> PartAddress {
        var moved = address
        moved.outputIndex = visibleIndex(
            address.outputIndex, in: address.responseID, to: tools)
        return moved
    }

    // MARK: In

    /// An event of a viewer as the session takes it. An update of `tools` replaces those that its
    /// sender can see, and keeps the others. An item comes behind those that its sender cannot see.
    /// A demand for a call of a function that its sender cannot see becomes `auto`.
    func admit(
        _ event: ClientEvent, from tools: [String], to parameters: SessionParameters
    ) -> ClientEvent {
        guard !isEmpty else { return event }
        if case .conversationItemCreate(let item, let previous?) = event {
            return .conversationItemCreate(
                item: item, previousItemID: place(behind: previous, for: tools))
        }
        if case .responseCreate(var response) = event, let choice = response.toolChoice {
            response.toolChoice = self.choice(choice, of: tools)
            return .responseCreate(response)
        }
        guard case .sessionUpdate(var update) = event else { return event }
        if case .value(let choice) = update.toolChoice {
            update.toolChoice = .value(self.choice(choice, of: tools))
        }
        let kept = parameters.tools.filter { hidesFunction($0.name, from: tools) }
        switch update.tools {
        case .absent: break
        case .null: update.tools = .value(kept)
        case .value(let named):
            update.tools = .value(named.filter { !hidesFunction($0.name, from: tools) } + kept)
        }
        return .sessionUpdate(update)
    }
    private func choice(_ choice: ToolChoice, of tools: [String]) -> ToolChoice {
        guard case .function(let name) = choice, hidesFunction(name, from: tools) else {
            return choice
        }
        return .auto
    }
}
