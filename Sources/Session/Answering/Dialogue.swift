// A model that itself hears the user and speaks, as the session uses it. It is a part of the session: it
// keeps what it must know of the model's side, and reaches the model by commands to the shell.

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

    /// A run of the user's audio: mono at 16 kHz, noise removed where the session asks for that. Silence
    /// between turns is among it.
    /// - Parameter position: where on the audio timeline the run ends, in samples at 16 kHz.
    func hear(_ samples: UnsafeBufferPointer<Int16>, endingAt position: Int)

    /// This part of the audio timeline is a turn of the user, and has this item.
    func commit(_ itemID: String, _ range: Range<Int>)

    /// The audio so far is no turn.
    func clear()

    /// An item is in the conversation that the dialogue has not made: typed text, a function's output, a phrase
    /// of the server.
    /// - Parameter previousItemID: the item before it; nil: it is the newest.
    func insert(_ item: ConversationItem, after previousItemID: String?)

    /// An item is gone from the conversation, or must be ignored: an echo, or sounds that did not interrupt.
    func delete(_ itemID: String)

    /// A response begins: the dialogue answers what it has heard and was given.
    /// - Parameter tools: functions of MCP servers, which this server calls.
    func answer(_ responseID: String, _ overrides: ResponseParameters, tools: [FunctionTool])

    /// The message or call that the dialogue has begun has this id.
    func begin(_ itemID: String, in responseID: String)

    /// The response ends here.
    func stop(_ responseID: String)

    /// The user has heard an item of a reply only so far.
    func truncate(_ itemID: String, milliseconds: Int)
}
