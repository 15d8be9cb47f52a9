// A model that itself hears the user and speaks, as the session uses it. It is a part of the
// session: it keeps the state of the model's side that it needs, and reaches the model by commands
// to the shell.

import Codec

/// A speech-to-speech model in one session. It knows items and responses by the session's ids.
///
/// Its replies come as agent events: `modelDelta` has words and calls, `speech` the sound of the message that
/// is open, `messageEnded` ends that message, and `modelFinished` follows the last of all.
protocol Dialogue: AnyObject {
    /// Whether each turn is followed by a `transcript` of it, or by `transcriptionFailed`.
    var transcribes: Bool { get }
    /// Bytes that it holds for the session.
    var heldBytes: Int { get }

    /// Takes a run of the user's audio: mono at 16 kHz, noise removed where the session asks for
    /// that. Silence between turns is included.
    /// - Parameter position: where on the audio timeline the run ends, in samples at 16 kHz.
    func hear(_ samples: UnsafeBufferPointer<Int16>, endingAt position: Int)

    /// Ends a turn of the user: this part of the audio timeline belongs to this item.
    func commit(_ itemID: String, _ range: Range<Int>)

    /// Drops the audio so far: it is no turn.
    func clear()

    /// Takes an item of the conversation that the dialogue has not made: typed text, a function's
    /// output, a phrase of the server.
    /// - Parameter previousItemID: the item before it, or nil where it is the newest.
    func insert(_ item: ConversationItem, after previousItemID: String?)

    /// Removes an item that is gone from the conversation, or must be ignored: an echo, or sounds
    /// that did not interrupt.
    func delete(_ itemID: String)

    /// Begins a response: the dialogue answers the audio and the items that it has.
    /// - Parameter tools: functions of MCP servers, which this server calls.
    func answer(_ responseID: String, _ overrides: ResponseParameters, tools: [FunctionTool])

    /// Takes the id of the message or call that the dialogue has begun.
    func begin(_ itemID: String, in responseID: String)

    /// Ends a response.
    func stop(_ responseID: String)

    /// Cuts an item of a reply: the user has heard it only to this point.
    func truncate(_ itemID: String, milliseconds: Int)
}
