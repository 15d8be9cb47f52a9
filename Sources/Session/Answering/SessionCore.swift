// The state that the parts of a session share: its settings, ids, conversation and responses.
// VoiceSession has it; a part reaches it through this protocol. A test can have it without a
// session, so that each part is made and tested alone.
//
// Invariant: all parts emit into the one output queue of the context, so that the order of their
// calls is the order in which the client sees their events.

import Codec

/// The shared state of a session, as its parts see it. It outlives them.
protocol SessionCore: AnyObject {
    /// `sess_…`
    var id: String { get }
    var context: SessionContext { get }
    /// The effective session.
    var parameters: SessionParameters { get }
    var ids: IdentifierSource { get set }
    var conversation: Conversation { get set }
    /// The answerer of the user's turns.
    var answerer: Answerer { get }
    /// Responses in flight: at most one in the conversation.
    var responses: [Response] { get }
    /// The recording in progress, or nil where the session is not recorded.
    var recording: SessionRecording? { get }
    /// How the client learns what to do with audio that it has.
    var playbackControl: PlaybackControl { get }
    /// Whether the client takes no more audio for now.
    var isClientFull: Bool { get }
    /// The phrase for a user whose turn cannot be answered. Nil means that there is none.
    var apology: String? { get }
    /// The rules for the words of the conversation.
    var languageRules: LanguageRules { get }
}

extension SessionCore {
    var recording: SessionRecording? { nil }
    var playbackControl: PlaybackControl { .events }
    var isClientFull: Bool { false }
    var apology: String? { nil }
    var languageRules: LanguageRules { .rules(for: parameters.transcription?.languageHint) }

    func emit(_ event: ServerEvent) { context.outputs.append(.event(event)) }
    func command(_ command: AgentCommand) { context.outputs.append(.command(command)) }

    /// The response in flight that belongs to the conversation.
    var activeResponse: Response? { responses.first { $0.isInConversation } }

    /// The response in flight with an id.
    func response(_ id: String) -> Response? { responses.first { $0.id == id } }

    /// Makes room for an item of this many bytes: unless `truncation` is `"disabled"`, the oldest
    /// items are deleted, with an event for each.
    func makeRoom(forBytes bytes: Int = 0) throws(ClientEventError) {
        while !conversation.hasRoom(forBytes: bytes) {
            guard parameters.truncation != .disabled,
                let oldest = conversation.removeOldest()
            else {
                throw Conversation.Failure.full.clientEventError(itemID: "", action: "create")
            }
            answerer.delete(oldest)
            emit(.conversationItemDeleted(itemID: oldest))
        }
    }

    /// Puts an item into the conversation and emits its events.
    /// - Parameter isHeard: whether it is a turn of which the answerer has heard the audio.
    func add(
        _ item: ConversationItem, after previousItemID: String?, isHeard: Bool = false
    ) throws(ClientEventError) {
        let previous: String?
        do {
            previous = try conversation.insert(item, after: previousItemID)
        } catch {
            throw error.clientEventError(itemID: item.id, action: "create")
        }
        if !isHeard { answerer.insert(item, after: previousItemID) }
        emit(.conversationItemAdded(item, previousItemID: previous))
        emit(.conversationItemDone(item, previousItemID: previous))
    }
}
