// A model that itself hears the user and speaks, as the session uses it. It holds the conversation on its
// side, so it is told of each change: audio, turns, items, and how much of a reply was heard.

import Codec

/// A speech-to-speech model in one session.
///
/// Its replies come as agent events: `modelDelta` has the words, `speech` the sound of the message that is
/// open, `messageEnded` ends that message, and `modelFinished` follows the last of both. Transcripts of the
/// user come as `transcript` where it makes them.
protocol Dialogue: AnyObject {
    /// A run of the user's audio: mono at 16 kHz, noise removed where the session asks for that.
    func hear(_ samples: UnsafeBufferPointer<Int16>)

    /// The audio since the turn before is a turn of the user, and has this item.
    func commit(_ itemID: String)

    /// The audio since the turn before is no turn.
    func clear()

    /// An item that was not heard: a typed message, or a function's output.
    func insert(_ item: ConversationItem)

    /// An item is gone from the conversation, or what was said in it means nothing.
    func delete(_ itemID: String)

    /// A response begins: the dialogue answers what it has heard and was given.
    func answer(_ responseID: String, _ overrides: ResponseParameters)

    /// The response ends here.
    func stop(_ responseID: String)

    /// The user has heard an item of a reply only so far.
    func truncate(_ itemID: String, milliseconds: Int)
}
