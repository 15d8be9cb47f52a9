// The viewers of an observed session, by the items that they have asked for. `conversation.item.retrieve`
// is a question of one viewer, and its answer is for that one alone: with audio it may be large, and it
// comes in a later step than the question.
//
// Invariant: at most `maxOpen` questions are known. The session has at most one open question more
// than it makes audio ready for at the same time.

import Codec

/// The open questions for items.
struct ItemRetrievals {
    private struct Question {
        let itemID: String
        /// The sideband that has asked, or nil for the client.
        let asker: SidebandLink?
    }

    /// Questions that are remembered. 16: more than a session leaves open.
    static let maxOpen = 16

    private var open: [Question] = []

    /// Whether no answer is awaited.
    var isEmpty: Bool { open.isEmpty }

    /// Heap bytes of it, without the links.
    var heldBytes: Int { open.reduce(open.heapBytes) { $0 + $1.itemID.heapBytes } }

    /// Takes note of an event before the session has it.
    /// - Parameter asker: the sideband that sends it, or nil for the client.
    mutating func note(_ event: ClientEvent, from asker: SidebandLink?) {
        guard case .conversationItemRetrieve(let itemID) = event else { return }
        if open.count >= Self.maxOpen { open.removeFirst() }
        open.append(Question(itemID: itemID, asker: asker))
    }

    /// The sideband that an answer is for, or nil for the client. An answer without a question here
    /// is the client's, which asked before the first sideband joined.
    mutating func takeAsker(of answer: ServerEvent) -> SidebandLink? {
        let index = open.firstIndex { question in
            switch answer {
            case .conversationItemRetrieved(let item): item.id == question.itemID
            case .error(let error): error.message.contains("'\(question.itemID)'")
            default: false
            }
        }
        return index.map { open.remove(at: $0) }?.asker
    }
}

extension ServerEvent {
    /// Whether it answers `conversation.item.retrieve`: with the item, or with the error that there
    /// is none.
    var answersRetrieval: Bool {
        switch self {
        case .conversationItemRetrieved: true
        case .error(let error): error.code == "item_retrieve_invalid_item_id"
        default: false
        }
    }
}
