// A conversation in the order that model services demand: each call of an assistant's message has
// exactly one output. The request types write the turns in the form of their API.

import Session

/// One party's contribution to the conversation.
enum ConversationTurn {
    /// A function call and its output.
    struct AnsweredCall {
        let callID: String
        let name: String
        /// JSON text; `{}` where the model wrote none.
        let arguments: String
        let output: String
    }

    case system(String)
    case user([UserPart])
    /// The text before the calls, or nil, and the calls that the model made at once.
    case assistant(text: String?, calls: [AnsweredCall])
}

extension [ModelMessage] {
    /// The turns of the conversation. A call without an output is left out, because services refuse
    /// it: the user spoke on before the call was answered. An output without a call is left out
    /// too.
    var turns: [ConversationTurn] {
        var outputs: [String: String] = [:]
        for case .functionOutput(let callID, let output) in self where outputs[callID] == nil {
            outputs[callID] = output
        }
        var turns: [ConversationTurn] = []
        var rest = self[...]
        while let message = rest.popFirst() {
            switch message {
            case .system(let text): turns.append(.system(text))
            case .user(let text): turns.append(.user([.text(text)]))
            case .userAudio(let audio): turns.append(.user([.audio(audio)]))
            case .userParts(let parts): turns.append(.user(parts))
            case .assistant(let text):
                turns.append(.assistant(text: text, calls: rest.takeCalls(outputs)))
            case .functionCall:
                rest = self[(rest.startIndex - 1)...]
                let calls = rest.takeCalls(outputs)
                if !calls.isEmpty { turns.append(.assistant(text: nil, calls: calls)) }
            case .functionOutput: break  // Already written with its call.
            }
        }
        return turns
    }

    /// The abilities that a model needs for these messages.
    var neededAbilities: ModelAbilities {
        var needed = ModelAbilities()
        for message in self {
            switch message {
            case .userAudio: needed.hearsAudio = true
            case .userParts(let parts):
                for part in parts {
                    switch part {
                    case .audio: needed.hearsAudio = true
                    case .image: needed.seesImages = true
                    case .text: break
                    }
                }
            case .system, .user, .assistant, .functionCall, .functionOutput: break
            }
        }
        return needed
    }
}

extension ArraySlice<ModelMessage> {
    /// Removes the calls at the front and returns those that have an output. Calls that follow an
    /// output belong to a turn of their own, because the model knew the output when it made them.
    fileprivate mutating func takeCalls(
        _ outputs: [String: String]
    ) -> [ConversationTurn.AnsweredCall] {
        var calls: [ConversationTurn.AnsweredCall] = []
        while case .functionCall(let callID, let name, let arguments)? = first {
            removeFirst()
            guard let output = outputs[callID] else { continue }
            calls.append(
                .init(
                    callID: callID, name: name, arguments: arguments.isEmpty ? "{}" : arguments,
                    output: output))
        }
        return calls
    }
}
