// The responses that follow the results of MCP tools: the model is asked again with them. SessionTools
// decides that all results are there; VoiceSession begins the response once nothing stands in the
// way.
//
// Invariant: without the client or the user, at most `maxAutomaticResponses` begin in a row. This
// stops a model that calls tools for ever.

import Codec

/// Responses that are due because of results.
struct ToolContinuations {
    /// The parameters of the response in the conversation that is due, because no model has seen
    /// the results yet. Nil where none is due.
    private var next: ResponseParameters?
    /// The same for responses outside the conversation.
    private var outOfBand: [ResponseParameters] = []
    /// Responses in a row that began because of results.
    private var automaticResponses = 0

    /// Whether a response is due.
    var isDue: Bool { next != nil || !outOfBand.isEmpty }

    /// Bytes of the list.
    var heldBytes: Int { outOfBand.heapBytes }

    /// A response in the conversation is due.
    mutating func setNext(_ parameters: ResponseParameters) { next = parameters }

    /// A response outside the conversation is due.
    mutating func addOutOfBand(_ parameters: ResponseParameters) { outOfBand.append(parameters) }

    /// The client or the user has asked for a response.
    mutating func handleAsked() { automaticResponses = 0 }

    /// A response in the conversation begins: it shows the model the results that another was due
    /// for.
    mutating func handleResponseBegun() { next = nil }

    /// Takes the response in the conversation that is due, if there is one.
    /// - Throws: `tooManyAutomaticResponses`, and then the response does not begin.
    mutating func takeNext(most: Int) throws(ClientEventError) -> ResponseParameters? {
        guard let taken = next.take() else { return nil }
        try countAutomaticResponse(most: most)
        return taken
    }

    /// Takes the oldest response outside the conversation that is due, if there is one.
    /// - Throws: `tooManyAutomaticResponses`, and then the response does not begin.
    mutating func takeOutOfBand(most: Int) throws(ClientEventError) -> ResponseParameters? {
        guard !outOfBand.isEmpty else { return nil }
        let taken = outOfBand.removeFirst()
        try countAutomaticResponse(most: most)
        return taken
    }

    private mutating func countAutomaticResponse(most: Int) throws(ClientEventError) {
        guard automaticResponses < most else { throw .tooManyAutomaticResponses(most) }
        automaticResponses += 1
    }
}

extension ResponseParameters {
    /// The parameters of the response after results: the same, but the model need not call a tool.
    func afterToolResults(_ session: SessionParameters) -> ResponseParameters {
        var next = self
        next.mcpToolChoice = nil
        switch next.toolChoice ?? session.toolChoice {
        case .none: next.toolChoice = ToolChoice.none
        case .auto, .required, .function: next.toolChoice = .auto
        }
        return next
    }
}
