// The start of a request of the Responses API, where the service keeps the conversation: the newest
// answer that the user heard whole, and what is new since. OpenAIResponses writes it, and
// OpenAIResponsesReply makes the memento of the next answer.
//
// Invariant: a request goes on from an answer only where the service knows exactly what came before.
// The calls of that answer have their outputs, and no other call has got one since. Any other
// request has the whole conversation.
//
// Source: Open Responses 2026-04-24, "previous_response_id".

import Session

/// The record of an answer that the session keeps, as lines: its id, and the ids of the calls that
/// wait for their output.
struct ResponsesMemento: Equatable, Sendable {
    /// Longest id of an answer or a call; an answer with a longer one is not gone on from.
    static let maxIDBytes = 512
    /// Most calls of an answer.
    static let maxCalls = 128

    let responseID: String
    let callIDs: [String]

    /// Nil where an id cannot be kept.
    init?(responseID: String, callIDs: [String]) {
        let areFit = ([responseID] + callIDs).allSatisfy { id in
            !id.isEmpty && id.utf8.count <= Self.maxIDBytes && !id.utf8.contains(10)
        }
        guard areFit, callIDs.count <= Self.maxCalls else { return nil }
        self.responseID = responseID
        self.callIDs = callIDs
    }

    /// Reads what `text` has written.
    init?(_ text: String) {
        let lines = text.utf8.split(separator: 10).map { String(Substring($0)) }
        guard let first = lines.first else { return nil }
        self.init(responseID: first, callIDs: Array(lines.dropFirst()))
    }

    /// The memento as the session keeps it.
    var text: String { ([responseID] + callIDs).joined(separator: "\n") }
}

/// A request that goes on from an answer.
struct ResponsesContinuation {
    /// `previous_response_id`.
    let responseID: String
    /// The outputs of the answer's calls. They come first, as the model waits for them.
    private(set) var outputs: [(callID: String, output: String)] = []
    /// The turns since.
    let turns: [ConversationTurn]

    /// Nil where the whole conversation must be sent.
    /// - Parameter provider: the name of the service.
    init?(_ request: ModelRequest, provider: String) {
        // If a reply was cut, the service remembers words of it that the user has not heard.
        let kept = request.mementos.last { $0.provider == provider && $0.wasHeard }
        guard let kept, let memento = ResponsesMemento(kept.text), let known = kept.knownMessages,
            (0...request.messages.count).contains(known)
        else { return nil }
        var waiting = Set(memento.callIDs)
        var calls: Set<String> = []
        for message in request.messages[known...] {
            switch message {
            case .functionCall(let callID, _, _): calls.insert(callID)
            case .functionOutput(let callID, let output):
                guard !calls.contains(callID) else { continue }
                guard waiting.remove(callID) != nil else { return nil }
                outputs.append((callID, output))
            case .system, .user, .userAudio, .userParts, .assistant: break
            }
        }
        turns = Array(request.messages[known...]).turns
        responseID = memento.responseID
        // Services refuse to go on from a call without an output, and with nothing.
        guard waiting.isEmpty, !outputs.isEmpty || !turns.isEmpty else { return nil }
    }
}
