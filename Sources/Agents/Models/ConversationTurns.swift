// A conversation in the order that model services demand: the calls of one assistant's message are
// followed by exactly one output each. How a service spells that is its request's business.

import Codec
import Session

/// A turn of a conversation, as services want it.
enum ConversationTurn {
    /// A function call and what came of it.
    struct AnsweredCall {
        let callID: String
        let name: String
        /// JSON text; `{}` where the model wrote none.
        let arguments: String
        let output: String
    }

    case system(String)
    case user([UserPart])
    /// What the model said before its calls, if anything, and the calls that it made at once.
    case assistant(text: String?, calls: [AnsweredCall])
}

extension [ModelMessage] {
    /// The turns of the conversation. A call without an output is left out: the user went on before
    /// there was one, and services refuse such a call; so is an output without a call.
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
            case .functionOutput: break  // It stands beside its call.
            }
        }
        return turns
    }

    /// What a model must understand to be given these messages.
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
    /// Takes the calls at the front. Calls after an output were made knowing it: they begin a turn
    /// of their own.
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

extension JSONWriter {
    /// What was said, as the string of a WAV file in base64.
    mutating func wavFile(of audio: HeardAudio) {
        // Without memory for a decoder the model hears nothing, which it will say.
        let samples = (try? audio.samples()) ?? []
        let file = WAVFile(rate: .hz16000, samples: samples).encoded()
        base64(file.span.bytes)
    }
}
