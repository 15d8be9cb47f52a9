// A conversation in the order that model services demand: each call of an assistant's message has
// exactly one output. The request types write the turns in the form of their API.
//
// A call that has no output yet is shown with one that says so. Services refuse a call without an
// output, and a model that is not shown its call makes it again.

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

    /// The output of a call that has none yet.
    static let pendingOutput =
        "In progress: this call has not returned yet. Its result will follow; do not repeat the call."

    case system(String)
    case user([UserPart])
    /// The text before the calls, or nil, and the calls that the model made at once.
    case assistant(text: String?, calls: [AnsweredCall])
}

extension [ModelMessage] {
    /// The first output of each call, by the call's id.
    var outputs: [String: String] {
        var outputs: [String: String] = [:]
        for case .functionOutput(let callID, let output) in self where outputs[callID] == nil {
            outputs[callID] = output
        }
        return outputs
    }

    /// The turns of the whole conversation.
    var turns: [ConversationTurn] { turns(outputs: outputs) }

    /// The turns of these messages. An output stands with its call, wherever it came. An output
    /// without a call is left out.
    /// - Parameter outputs: the outputs of the whole conversation, of which these messages are a
    ///   part.
    func turns(outputs: [String: String]) -> [ConversationTurn] {
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
                turns.append(.assistant(text: nil, calls: rest.takeCalls(outputs)))
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
    /// Removes the calls at the front. Calls that follow an output belong to a turn of their own,
    /// because the model knew the output when it made them.
    fileprivate mutating func takeCalls(
        _ outputs: [String: String]
    ) -> [ConversationTurn.AnsweredCall] {
        var calls: [ConversationTurn.AnsweredCall] = []
        while case .functionCall(let callID, let name, let arguments)? = first {
            removeFirst()
            calls.append(
                .init(
                    callID: callID, name: name, arguments: arguments.isEmpty ? "{}" : arguments,
                    output: outputs[callID] ?? ConversationTurn.pendingOutput))
        }
        return calls
    }
}
