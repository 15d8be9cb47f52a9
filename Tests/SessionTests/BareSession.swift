// What the parts of a session share, without the session: a part is made and tested alone with it.

import Codec

@testable import Session

final class BareSession: SessionCore {
    let id = "sess_bare"
    let context: SessionContext
    var parameters = SessionParameters(model: "bare")
    var ids = IdentifierSource(seed: 1)
    var conversation: Conversation
    var answerer = Answerer.cascade(Cascade())
    var responses: [Response] = []

    init(limits: SessionLimits = SessionLimits(), hasRecognizer: Bool = true) {
        context = SessionContext(
            limits: limits, voiceActivityModel: nil, hasRecognizer: hasRecognizer,
            hasSynthesizer: true)
        conversation = Conversation(
            maxItems: limits.maxConversationItems, maxBytes: limits.maxConversationBytes)
    }

    /// Begins a response whose audio is sent on a timeline.
    func begin(
        _ id: String, on playout: PlayoutTimeline, modality: OutputModality = .text,
        parameters: ResponseParameters = ResponseParameters()
    ) -> Response {
        let description = ResponseDescription(
            id: id, conversationID: parameters.isInConversation ? "conv" : nil,
            outputModality: modality, outputFormat: .pcm, voice: "marin")
        let clauses = ClauseSpeaker(
            of: id, voice: SpeechRequest(text: "", voice: "marin"), language: .english,
            context: context)
        let sender = SpeechSender(
            of: description, language: .english, playout: playout, speechEnd: nil, context: context)
        let response = Response(
            description: description, parameters: parameters, clauses: clauses, sender: sender,
            speechEnd: nil, asked: nil, core: self)
        responses.append(response)
        return response
    }

    /// Takes the outputs so far: one word for each, events by their type.
    func takeOutputs() -> [String] {
        var words: [String] = []
        while let output = context.outputs.next() { words.append(Self.word(for: output)) }
        return words
    }

    private static func word(for output: SessionOutput) -> String {
        switch output {
        case .event(let event): "\(event)".prefix { $0 != "(" }.description
        case .command(.tools(let command)):
            "tools." + "\(command)".prefix { $0 != "(" }.description
        case .command(let command): "command." + "\(command)".prefix { $0 != "(" }.description
        case .dropAudio(let responseID): "dropAudio \(responseID)"
        case .dropItemAudio(let itemID): "dropItemAudio \(itemID)"
        case .playback(let command): "playback \(command)"
        case .audio: "audio"
        case .measured, .answered: "measured"
        case .transcribed(let itemID): "transcribed \(itemID)"
        case .hangUp: "hangUp"
        case .failed(let fault): "failed \(fault)"
        case .recorded: "recorded"
        }
    }
}
