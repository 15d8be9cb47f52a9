// The cost of a message for the server beyond its bytes, as units of work. A message that begins a turn
// costs as much as 64 that change an item. The server composes a request to the model, uses a connection,
// and cancels what was under way. Audio has no price here, because the tick's share of audio bounds it.
//
// ShardWork spends the units of a connection's budget. The tick counts half of them as messages: two turns
// are all that a connection may ask for in one tick.

import Codec

/// Units of work.
enum WorkPrice {
    /// A message that begins a turn.
    static let turn = 64
    /// A turn of audio that the client ends itself: recognition is asked for.
    static let commit = 32
    /// An event that compares or settles much: the whole session, the words of an item.
    static let heavy = 16
    /// Anything else.
    static let least = 1

    /// The price of a text message, by its length: a unit for each 4 KiB that is parsed.
    static func text(bytes: Int) -> Int { least + bytes >> 12 }
}

extension ClientEvent {
    /// Units of work of the event, without its bytes.
    var workPrice: Int {
        switch self {
        case .inputAudioBufferAppend: 0
        case .responseCreate: WorkPrice.turn
        case .inputAudioBufferCommit: WorkPrice.commit
        case .sessionUpdate, .conversationItemTruncate: WorkPrice.heavy
        // The cost of a cancelled response was spent when the client asked for it. The audio of four
        // items is encoded at once, at most.
        case .responseCancel, .inputAudioBufferClear, .conversationItemCreate,
            .conversationItemDelete, .conversationItemRetrieve, .outputAudioBufferClear,
            .outputAudioBufferPlayed, .ping:
            0
        }
    }
}

extension TelephoneMessage {
    /// Units of work of the message, without its bytes. A key may be the last of a turn.
    var workPrice: Int {
        switch self {
        case .started, .digit: WorkPrice.turn
        case .prompt(_, let isLast): isLast ? WorkPrice.turn : 0
        // An interruption is a nuisance (ShardFloods).
        case .interrupted, .media, .played, .queue, .stopped, .failed, .other: 0
        }
    }
}
