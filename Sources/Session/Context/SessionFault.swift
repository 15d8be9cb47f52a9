// The invariants of a session, and what happens when one is broken.
//
// A broken invariant is a defect of this program: no client can cause one. The session's state is
// then meaningless. In tests, simulation and fuzzing a fault traps, so that it is found. In a
// production server (`SessionContext.reportsFaults`) it fails this session alone: the session emits
// `SessionOutput.failed`, the shell ends the session, and the others of the process go on.
//
// Two rules trap everywhere. Positions in audio are checked where memory is read, because a wrong
// one would read other memory. And all outputs of one input must be taken before the next input,
// because otherwise one client would receive output of another's session.

/// An invariant of a session that does not hold.
public enum SessionFault: String, CaseIterable, Error, Sendable {
    /// Two responses in the conversation at once.
    case severalActiveResponses = "several_active_responses"
    /// More responses than `maxActiveResponses`.
    case tooManyResponses = "too_many_responses"
    /// More transcripts awaited than `maxAwaitedTranscripts`.
    case tooManyTranscripts = "too_many_transcripts"
    /// More items whose audio is being encoded than a client may ask for.
    case tooManyRetrievals = "too_many_retrievals"
    /// A model was asked twice for one response.
    case askedTwice = "asked_twice"
    /// A reply is held and no speech is weighed, or the other way round.
    case holdWithoutSpeech = "hold_without_speech"
    /// Audio was encoded while its reply was held.
    case sentWhileHeld = "sent_while_held"
    /// The shell handed over a message before all of the one before it was heard.
    case messageOutOfOrder = "message_out_of_order"
}

extension SessionContext {
    /// Reports a fault of the session whose input is being handled, or traps.
    func handle(_ fault: SessionFault) {
        guard reportsFaults else { preconditionFailure("a session is broken: \(fault)") }
        outputs.append(.failed(fault))
    }
}
