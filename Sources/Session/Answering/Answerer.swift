// Who answers the user's turns. VoiceSession finds the turns and reports the replies; what lies between
// them is the answerer's. Who makes a session chooses it, once.
//
//   cascade    turn ─▶ recogniser ─▶ words ─▶ model ─▶ text ─▶ synthesiser ─▶ speech
//   dialogue   audio ─▶ a model that hears and speaks ─▶ words and speech
//
// Both answer with the same events (`AgentEvent`): pieces of a reply's words, runs of its speech, its end. So
// Response, PlayoutTimeline and ReplyPlayback serve either. So does UserTurn: words or audio may wait for an
// answer. A cascade's model is shown the conversation when it is asked. A dialogue holds the conversation on its
// side, so it is told of each change.

import Codec

/// What answers the turns of one session.
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

    // MARK: What a dialogue is told

    /// A run of the user's audio.
    func hear(_ samples: UnsafeBufferPointer<Int16>, endingAt position: Int) {
        dialogue?.hear(samples, endingAt: position)
    }

    /// The user's audio from a position to another is a turn.
    func commit(_ itemID: String, _ range: Range<Int>) { dialogue?.commit(itemID, range) }

    /// The user's audio so far is no turn.
    func clear() { dialogue?.clear() }

    /// An item is in the conversation that the answerer has not made.
    func insert(_ item: ConversationItem, after previousItemID: String?) {
        dialogue?.insert(item, after: previousItemID)
    }

    /// An item is gone from the conversation, or must be ignored.
    func delete(_ itemID: String) { dialogue?.delete(itemID) }

    /// Asks a dialogue for a response.
    /// - Parameter tools: those of MCP servers, which this server calls.
    func answer(
        _ responseID: String, _ overrides: ResponseParameters, tools: [FunctionTool]
    ) { dialogue?.answer(responseID, overrides, tools: tools) }

    /// An item of a response that the dialogue is asked for has begun.
    func begin(_ itemID: String, in responseID: String) {
        dialogue?.begin(itemID, in: responseID)
    }

    /// A response that the dialogue was asked for ends here.
    func stop(_ responseID: String) { dialogue?.stop(responseID) }

    /// The user has heard an item of a reply only so far.
    func truncate(_ itemID: String, milliseconds: Int) {
        dialogue?.truncate(itemID, milliseconds: milliseconds)
    }
}

/// What a session has where a recogniser, a model and a synthesiser answer one after another.
struct Cascade {
    /// The model's head start, where the client has asked for one.
    var speculation = Speculation.none
}
