// The answerer of the user's turns. VoiceSession finds the turns and reports the replies. The
// answerer does the work between them. The caller that makes a session chooses it, once.
//
//   cascade    turn ─▶ recogniser ─▶ words ─▶ model ─▶ text ─▶ synthesiser ─▶ speech
//   dialogue   audio ─▶ a model that hears and speaks ─▶ words and speech
//
// Both answer with the same events (`AgentEvent`): pieces of a reply's words, runs of its speech,
// its end. So Response, PlayoutTimeline and ReplyPlayback serve either. So does UserTurn: words or
// audio may wait for an answer. A cascade's model is shown the conversation when it is asked. A
// dialogue keeps the conversation on its side, so each change is passed on to it.

import Codec

/// The answerer of one session's turns.
enum Answerer {
    /// A recogniser, a model and a synthesiser, one after another, as commands to the shell.
    case cascade(Cascade)
    /// A model that itself hears and speaks. In a box, so that no idle session grows.
    indirect case dialogue(any Dialogue)

    private var dialogue: (any Dialogue)? {
        if case .dialogue(let dialogue) = self { dialogue } else { nil }
    }

    /// Whether it is a dialogue: its words come with their speech, and it hears the user itself.
    var isDialogue: Bool { dialogue != nil }

    /// Whether it sends transcripts of the user unasked.
    var transcribes: Bool { dialogue?.transcribes == true }

    /// Bytes that it holds for the session.
    var heldBytes: Int {
        switch self {
        case .cascade(let cascade): cascade.speculation.reply?.heldBytes ?? 0
        case .dialogue(let dialogue): dialogue.heldBytes
        }
    }

    /// The model's head start. A dialogue has none, because it has heard the user by then.
    var speculation: Speculation {
        get { if case .cascade(let cascade) = self { cascade.speculation } else { .none } }
        set { if case .cascade = self { self = .cascade(Cascade(speculation: newValue)) } }
    }

    // MARK: Changes for a dialogue

    /// Takes a run of the user's audio.
    func hear(_ samples: UnsafeBufferPointer<Int16>, endingAt position: Int) {
        dialogue?.hear(samples, endingAt: position)
    }

    /// Ends a turn of the user, which is this part of the audio timeline.
    func commit(_ itemID: String, _ range: Range<Int>) { dialogue?.commit(itemID, range) }

    /// Drops the user's audio so far: it is no turn.
    func clear() { dialogue?.clear() }

    /// Takes an item of the conversation that the answerer has not made.
    func insert(_ item: ConversationItem, after previousItemID: String?) {
        dialogue?.insert(item, after: previousItemID)
    }

    /// Removes an item that is gone from the conversation, or must be ignored.
    func delete(_ itemID: String) { dialogue?.delete(itemID) }

    /// Asks a dialogue for a response.
    /// - Parameter tools: the functions of MCP servers, which this server calls.
    func answer(
        _ responseID: String, _ overrides: ResponseParameters, tools: [FunctionTool]
    ) { dialogue?.answer(responseID, overrides, tools: tools) }

    /// Takes the id of an item that has begun, in a response that the dialogue was asked for.
    func begin(_ itemID: String, in responseID: String) {
        dialogue?.begin(itemID, in: responseID)
    }

    /// Ends a response that the dialogue was asked for.
    func stop(_ responseID: String) { dialogue?.stop(responseID) }

    /// Cuts an item of a reply: the user has heard it only to this point.
    func truncate(_ itemID: String, milliseconds: Int) {
        dialogue?.truncate(itemID, milliseconds: milliseconds)
    }
}

/// The state of a session where a recogniser, a model and a synthesiser answer one after another.
struct Cascade {
    /// The model's head start, where the client has asked for one.
    var speculation = Speculation.none
}
