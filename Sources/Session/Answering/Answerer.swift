// Who answers the user's turns. VoiceSession finds the turns and reports the replies; what lies between
// them is the answerer's. It is chosen once, where the session is made.
//
//   cascade    turn ─▶ recogniser ─▶ words ─▶ model ─▶ text ─▶ synthesiser ─▶ speech
//   dialogue   audio ─▶ a model that hears and speaks ─▶ words and speech
//
// Both answer with the same events (`AgentEvent`): pieces of a reply's words, runs of its speech, its
// end. So Response, PlayoutTimeline and ReplyPlayback serve either.

import Codec

/// What answers the turns of one session.
enum Answerer {
    /// A recogniser, a model and a synthesiser, one after another, as commands to the shell.
    case cascade(Cascade)
    /// A model that itself hears and speaks. In a box, so that no idle session grows.
    indirect case dialogue(any Dialogue)

    /// The model's head start; a dialogue has none.
    var speculation: Speculation {
        get { if case .cascade(let cascade) = self { cascade.speculation } else { .none } }
        set { if case .cascade = self { self = .cascade(Cascade(speculation: newValue)) } }
    }

    /// The dialogue; nil: a cascade answers.
    var dialogue: (any Dialogue)? {
        if case .dialogue(let dialogue) = self { dialogue } else { nil }
    }

    /// Stops the answer to a response; events of it that come later are ignored.
    func stop(_ responseID: String, _ context: SessionContext) {
        switch self {
        case .cascade:
            context.outputs.append(.command(.cancelResponse(responseID: responseID)))
        case .dialogue(let dialogue): dialogue.stop(responseID)
        }
    }

    /// The user has heard an item of a reply only so far. A cascade's model is shown the conversation,
    /// which knows that.
    func truncate(_ itemID: String, milliseconds: Int) {
        dialogue?.truncate(itemID, milliseconds: milliseconds)
    }
}

/// What a session has where a recogniser, a model and a synthesiser answer one after another.
struct Cascade {
    /// The model's head start, where the client has asked for one.
    var speculation = Speculation.none
}
