// The content of one run, decided from the request and the memento: the messages, their ids, and
// whether the user's words answer an interrupt. AGUI writes it, AGUIReply continues from it.

import Codec
import Session

/// One run of an agent.
struct AGUIRun: Sendable {
    /// Where the text of a message comes from.
    enum Entry: Equatable, Sendable {
        case system(String)
        case user([UserPart])
        /// The agent's text, the client's calls, and the calls that the agent answered itself.
        case assistant(text: String?, calls: [AGUIMemento.OwnStep.Call])
        case result(callID: String, content: RawJSON)
    }

    /// A message of the run.
    struct Message: Equatable, Sendable {
        let id: String
        var entry: Entry
    }

    /// An answer to an interrupt.
    struct Answer: Equatable, Sendable {
        /// Nil for `on_interrupt`.
        let interruptID: String?
        let json: RawJSON
    }

    let threadID: String
    let runID: String
    private(set) var messages: [Message] = []
    private(set) var answers: [Answer] = []
    let state: RawJSON?
    /// The names of the client's functions.
    let offered: Set<String>
    /// The memento that the next one starts from.
    private(set) var memento: AGUIMemento
    /// Messages of the request, the position of this run's calls in the next memento.
    let turn: Int

    private var ids = MessageIDs()
    private var nextKnown = 0

    init(_ request: ModelRequest, provider: String) {
        threadID = request.turn?.sessionID ?? Self.randomID("thread")
        runID = request.turn?.responseID ?? Self.randomID("run")
        offered = request.toolChoice == .none ? [] : Set(request.tools.map(\.name))
        let turn = request.messages.count
        let kept = request.mementos.last { $0.provider == provider }
        var memento = kept.flatMap { AGUIMemento($0.text) } ?? AGUIMemento()
        let known = kept?.knownMessages.flatMap { (0...turn).contains($0) ? $0 : nil }
        if known == nil {
            // A message was added, changed or deleted: the positions are no longer valid. The calls
            // of an interrupt that waits are the newest.
            memento.hidden = []
            memento.own = memento.interrupts.isEmpty ? [] : memento.own.suffix(1)
        }
        self.turn = turn
        state = memento.state
        self.memento = memento
        resume(request.messages, known: known)
        addMessages(of: request, arePositionsValid: known != nil)
        self.memento.interrupts = []
        self.memento.question = ""
    }

    /// A request without a session, such as a text request, is a conversation of its own.
    private static func randomID(_ kind: String) -> String {
        "\(kind)_" + String(UInt64.random(in: .min ... .max), radix: 16)
    }

    // MARK: Resuming

    /// Makes the user's newest words the answer to the interrupts that wait.
    private mutating func resume(_ messages: [ModelMessage], known: Int?) {
        guard !memento.interrupts.isEmpty else { return }
        var start = messages.endIndex
        while start > (known ?? 0), messages[start - 1].isUsers { start -= 1 }
        let words = messages[start...].compactMap(\.words).joined(separator: " ")
        guard !words.isEmpty else { return }
        var isSaidInAnswers = true
        for interrupt in memento.interrupts {
            let answer = interrupt.answer(words)
            answers.append(Answer(interruptID: interrupt.id, json: answer.json))
            isSaidInAnswers = isSaidInAnswers && answer.hasWords
        }
        let question = AGUIMemento.Message(id: "", text: memento.question)
        if start > 0, case .assistant(let text) = messages[start - 1], question.matches(text) {
            memento.hidden.append(start - 1)
        }
        if isSaidInAnswers { memento.hidden += start..<messages.endIndex }
        if memento.hidden.count > AGUIMemento.maxHidden {
            memento.hidden.removeFirst(memento.hidden.count - AGUIMemento.maxHidden)
        }
    }

    // MARK: Messages

    private mutating func addMessages(of request: ModelRequest, arePositionsValid: Bool) {
        if !request.instructions.isEmpty {
            messages.append(Message(id: "instructions", entry: .system(request.instructions)))
        }
        let hidden = Set(memento.hidden)
        let outputs = request.messages.outputs
        var start = 0
        var own: AGUIMemento.OwnTurn?
        func shown(_ range: Range<Int>) -> [ModelMessage] {
            range.filter { !hidden.contains($0) }.map { request.messages[$0] }
        }
        for next in memento.own {
            let end =
                arePositionsValid
                ? min(max(next.turn, start), turn)
                : request.messages.lastIndex { !$0.isUsers }.map { $0 + 1 } ?? 0
            add(shown(start..<end), outputs, own)
            start = end
            own = next
        }
        add(shown(start..<turn), outputs, own)
    }

    /// Adds the messages after a run, and the calls that the agent answered itself in that run:
    /// each with the text that it belongs to, or before the first text.
    private mutating func add(
        _ messages: [ModelMessage], _ outputs: [String: String], _ own: AGUIMemento.OwnTurn?
    ) {
        let turns = messages.turns(outputs: outputs).map { (turn: $0, id: id(of: $0)) }
        var steps = own?.steps ?? []
        let textIDs = Set(turns.map(\.id))
        for step in steps where !textIDs.contains(step.messageID) {
            add(step, id: step.messageID, text: nil, calls: [])
        }
        steps.removeAll { !textIDs.contains($0.messageID) }
        for (turn, id) in turns {
            switch turn {
            case .system(let text): self.messages.append(Message(id: id, entry: .system(text)))
            case .user(let parts): self.messages.append(Message(id: id, entry: .user(parts)))
            case .assistant(let text, let calls):
                let place = steps.firstIndex { $0.messageID == id }
                add(place.map { steps.remove(at: $0) }, id: id, text: text, calls: calls)
            }
        }
    }

    private mutating func add(
        _ step: AGUIMemento.OwnStep?, id: String, text: String?,
        calls: [ConversationTurn.AnsweredCall]
    ) {
        let all =
            (step?.calls ?? [])
            + calls.map { .init(id: $0.callID, name: $0.name, arguments: $0.arguments) }
        messages.append(Message(id: id, entry: .assistant(text: text, calls: all)))
        for result in step?.results ?? [] {
            messages.append(
                Message(
                    id: result.id, entry: .result(callID: result.callID, content: result.content)))
        }
        for call in calls {
            let output = RawJSON(
                String(decoding: encodedJSON { $0.string(call.output) }, as: UTF8.self))
            messages.append(
                Message(
                    id: "result-\(call.callID)",
                    entry: .result(callID: call.callID, content: output)))
        }
    }

    /// The id of a message: the agent's own, or one from its role and text.
    private mutating func id(of turn: ConversationTurn) -> String {
        switch turn {
        case .system(let text): return ids.make("system", text)
        case .user(let parts):
            return ids.make("user", parts.map(\.key).joined(separator: "\n"))
        case .assistant(let text, let calls):
            if let text, let known = takeKnown(text) { return known }
            if let callID = calls.first?.callID,
                let call = memento.clientCalls.last(where: { $0.callID == callID })
            {
                return call.messageID
            }
            return ids.make("assistant", text ?? calls.first?.callID ?? "")
        }
    }

    /// The id that the agent gave to this text. Messages are in the same order in both lists.
    private mutating func takeKnown(_ text: String) -> String? {
        guard
            let place = memento.messages[nextKnown...].firstIndex(where: { $0.matches(text) })
        else { return nil }
        nextKnown = place + 1
        return memento.messages[place].id
    }
}

/// Ids of messages that no agent has named. The same text has the same id in every run, whatever
/// came before it; texts that repeat are numbered.
private struct MessageIDs: Sendable {
    private var uses: [String: Int] = [:]

    mutating func make(_ role: String, _ text: String) -> String {
        // FNV-1a: spreads well, and is the same in every process.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        let id = "\(role)-\(String(hash, radix: 16))"
        let use = uses[id, default: 0] + 1
        uses[id] = use
        return "\(id)-\(use)"
    }
}

extension UserPart {
    /// A text that differs from part to part, except for audio.
    fileprivate var key: String {
        switch self {
        case .text(let text): text
        case .image(let url, _): url
        case .audio: "audio"
        }
    }
}

extension ModelMessage {
    fileprivate var isUsers: Bool {
        switch self {
        case .user, .userAudio, .userParts: true
        case .system, .assistant, .functionCall, .functionOutput: false
        }
    }

    /// The text of a user's message.
    fileprivate var words: String? {
        switch self {
        case .user(let text): return text.isEmpty ? nil : text
        case .userParts(let parts):
            let texts = parts.compactMap { part -> String? in
                guard case .text(let text) = part else { return nil }
                return text
            }
            return texts.isEmpty ? nil : texts.joined(separator: " ")
        case .userAudio, .system, .assistant, .functionCall, .functionOutput: return nil
        }
    }
}
