// The question about a session that is over (`after-call` of its agent), and its answer: a summary, or
// facts as JSON. Both are values here: Server/AgentProfiles asks, and Session/Records keeps the answer.
//
// The model is shown the conversation as one text, not as messages of its own: it would go on with
// those, and services refuse calls of functions that the request does not describe.

import Codec

/// The operator's question about each ended session of an agent.
public struct AfterCall: Equatable, Sendable {
    /// The model's instructions.
    public var instructions: String
    /// JSON schema of an object, which the answer then is. Nil means that the answer is a text.
    public var schema: RawJSON?
    /// The model's name. Nil means the model of the session.
    public var model: String?

    /// Creates a question.
    public init(instructions: String, schema: RawJSON? = nil, model: String? = nil) {
        (self.instructions, self.schema, self.model) = (instructions, schema, model)
    }

    /// The instructions, with the form of the answer.
    var allInstructions: String {
        guard let schema else { return instructions }
        return instructions
            + "\n\nAnswer with one JSON object that fits this JSON schema, and with nothing else:\n"
            + schema.text
    }

    /// The response that asks it.
    /// - Parameter conversation: see `VoiceSession.endedConversation`.
    package func response(about conversation: String) -> ResponseParameters {
        var response = ResponseParameters()
        response.isInConversation = false
        response.instructions = allInstructions
        response.input = [
            ConversationItem(
                id: "", kind: .message(role: .user, content: [.inputText(conversation)]))
        ]
        return response
    }

    /// Reads the answer from a model's text. Text around a JSON object is dropped: models put the
    /// object into a block of code. Whether it fits the schema is not checked.
    package func answer(in text: String) -> AfterCallAnswer {
        guard let first = text.firstIndex(where: { !$0.isWhitespace }),
            let last = text.lastIndex(where: { !$0.isWhitespace })
        else { return .failed(code: "empty_answer", message: "The model has said nothing.") }
        guard schema != nil else { return .text(String(text[first...last])) }
        guard let start = text.firstIndex(of: "{"), let end = text.lastIndex(of: "}"),
            start < end, let object = try? JSONParser().parse(String(text[start...end]))
        else {
            return .failed(
                code: "invalid_answer", message: "The model's answer is no JSON object.")
        }
        return .data(RawJSON(rewriting: object))
    }
}

/// The outcome of the question about a session.
public enum AfterCallAnswer: Equatable, Sendable {
    case text(String)
    /// A JSON object.
    case data(RawJSON)
    /// There is no answer: a stable code and a sentence.
    case failed(code: String, message: String)

    /// Bytes of its texts.
    var heapBytes: Int {
        switch self {
        case .text(let text): text.heapBytes
        case .data(let json): json.heapBytes
        case .failed(let code, let message): code.heapBytes + message.heapBytes
        }
    }
}
