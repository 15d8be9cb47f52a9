// Reads the events of an AG-UI run. AnswerReading splits the bytes into events.
//
// Spoken: the agent's text messages, and the question of an interrupt. Function calls: calls of
// functions that the request offered, once the run is over, because a call that the agent answers
// itself has its result in the same run. Passed on to the client: the state, activities, steps,
// custom events, and the agent's own calls. Skipped: reasoning, which is never spoken, raw events of
// other systems, text of subagents, and events of unknown types.
//
// Source: AG-UI 1.0, events. Where agents differ from it is noted where it is handled; seen at
// pydantic-ai 2.68.0 and ag-ui-langgraph 0.0.47.

import Codec
import Session

/// Collects one run.
struct AGUIReply: StreamedAnswer {
    /// Calls of one run, and messages of it that are compared with later ones.
    static let maxCalls = 256
    /// Bytes of the arguments of all calls of one run.
    static let maxArgumentBytes = 1 << 20
    /// Bytes of a result that the agent is sent back. 8 KiB: a model reads that in a few hundred
    /// milliseconds. A longer result is replaced by a note.
    static let maxResultBytes = 8 << 10
    /// Bytes of one event for the client. 64 KiB, as the state; a larger one is skipped.
    static let maxEventBytes = 64 << 10

    private struct Call {
        let id: String
        let name: String
        var messageID: String
        var arguments = ""
        var halves = SurrogateHalves()
        var hasResult = false
    }

    /// A text message of this run, to tell a copy of it in a snapshot from a new one.
    private struct Said {
        let message: AGUIMemento.Message
        let byteCount: Int
    }

    private let provider: String
    /// The ids of the messages that the run was sent.
    private let sent: Set<String>
    /// The names of the client's functions.
    private let offered: Set<String>
    /// Messages of the request.
    private let turn: Int
    private var state: AGUIState
    private(set) var isOver = false

    /// The message that is being said: its id, and the beginning and length of its text.
    private var openID: String?
    private var openHead = ""
    private var openBytes = 0
    private var halves = SurrogateHalves()
    /// Messages that are not the agent's, or were said already.
    private var muted: Set<String> = []
    private var said: [Said] = []

    private var calls: [Call] = []
    private var argumentBytes = 0
    private var own: [AGUIMemento.OwnStep] = []
    /// Results for calls of earlier runs, which an interrupt has delayed.
    private var memento: AGUIMemento
    private var customQuestion: String?

    /// A run that nothing is known of.
    init() { self.init(to: ModelRequest(model: "", messages: []), from: ModelService(baseURL: "")) }

    init(to request: ModelRequest, from service: ModelService) {
        let run = AGUIRun(request, provider: service.name)
        provider = service.name
        sent = Set(run.messages.map(\.id))
        offered = run.offered
        turn = run.turn
        state = AGUIState(run.state)
        memento = run.memento
    }

    var heldBytes: Int { state.byteCount + argumentBytes }

    mutating func handle(
        event data: UnsafeRawBufferPointer
    ) throws(AgentError) -> [ModelDelta] {
        // LangGraph repeats everything as RAW events, many times the size of the others.
        guard !isOver, !data.isEmpty, !data.starts(with: #"{"type":"RAW""#.utf8) else { return [] }
        return try AnswerParsers.read(data) { (event) throws(AgentError) in try handle(event) }
    }

    mutating func handle(whole answer: JSONValue) throws(AgentError) -> [ModelDelta] {
        throw .malformedReply(message: "The agent's answer is no event stream.")
    }

    mutating func finish() throws(AgentError) -> [ModelDelta] {
        guard isOver else { throw .cutOff }
        return []
    }

    private mutating func handle(_ event: JSONValue) throws(AgentError) -> [ModelDelta] {
        guard let type = event["type"]?.string else {
            if let error = ReportedError(in: event) { throw error.agentError }
            throw .malformedReply(message: "An event of the agent has no type.")
        }
        switch type {
        case "TEXT_MESSAGE_START": return start(event)
        case "TEXT_MESSAGE_CONTENT": return say(event)
        case "TEXT_MESSAGE_CHUNK": return start(event) + say(event)
        case "TEXT_MESSAGE_END": return end(event)
        case "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_CHUNK", "TOOL_CALL_END":
            return close() + (try handleCall(event, type))
        case "TOOL_CALL_RESULT": return close() + handleResult(event)
        case "STATE_SNAPSHOT":
            let loss = state.replace(with: event["snapshot"])
            return passOnState(event, loss, type)
        case "STATE_DELTA":
            let loss = state.apply(event["delta"])
            return passOnState(event, loss, type)
        case "MESSAGES_SNAPSHOT": return try handleSnapshot(event)
        case "CUSTOM":
            if event["name"]?.isString("on_interrupt") == true {
                customQuestion = Self.customQuestion(event["value"])
            }
            return passOn(event, type)
        case "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "STEP_STARTED", "STEP_FINISHED",
            "SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
            return passOn(event, type)
        case "RUN_FINISHED": return end(run: event)
        case "RUN_ERROR":
            // `code` is an open string; some agents put the HTTP status of their model there.
            let status = event["code"]?.wholeNumber ?? 0
            throw .brokenOff(
                status: (400...599).contains(status) ? status : 0,
                message: "The model server broke off: "
                    + (event["message"]?.string ?? "it gave no reason"))
        default: return []
        }
    }

    // MARK: Text

    /// A message begins. Agents with tools also begin and end messages without text.
    private mutating func start(_ event: JSONValue) -> [ModelDelta] {
        guard let id = event["messageId"]?.string, id != openID else { return [] }
        let isAgents = event["role"]?.isString("assistant") ?? true
        let isRepeated = said.contains { $0.message.id == id }
        guard isAgents, !isRepeated, event["subagentRunId"]?.string == nil else {
            if muted.count < Self.maxCalls { muted.insert(id) }
            return []
        }
        let deltas = close()
        openID = id
        return deltas
    }

    /// More of a message. Where the start is missing, it starts here.
    private mutating func say(_ event: JSONValue) -> [ModelDelta] {
        let id = event["messageId"]?.string ?? openID ?? ""
        guard event["subagentRunId"]?.string == nil, !muted.contains(id) else { return [] }
        guard let delta = event["delta"], delta.utf8?.isEmpty == false else { return [] }
        let closed = id == openID ? [] : close()
        openID = id
        let text = halves.text(of: delta) ?? ""
        return closed + (text.isEmpty ? [] : say(text, id: id))
    }

    private mutating func say(_ text: String, id: String) -> [ModelDelta] {
        var deltas = id == openID ? [] : close()
        openID = id
        if openHead.unicodeScalars.count < AGUIMemento.Message.headLength {
            openHead = AGUIMemento.Message.head(of: openHead + text)
        }
        openBytes += text.utf8.count
        deltas.append(.text(text))
        return deltas
    }

    private mutating func end(_ event: JSONValue) -> [ModelDelta] {
        event["messageId"]?.string == openID ? close() : []
    }

    /// The message that is being said is complete.
    private mutating func close() -> [ModelDelta] {
        defer {
            openID = nil
            openHead = ""
            openBytes = 0
        }
        let half = halves.finish()
        guard let openID, openBytes > 0 || !half.isEmpty else { return [] }
        let message = AGUIMemento.Message(id: openID, text: openHead)
        said.append(Said(message: message, byteCount: openBytes + half.utf8.count))
        if said.count > Self.maxCalls { said.removeFirst() }
        if !openID.isEmpty { memento.note(message) }
        return ModelDelta.texts(half) + [.messageEnded]
    }

    // MARK: Calls

    private mutating func handleCall(
        _ event: JSONValue, _ type: String
    ) throws(AgentError) -> [ModelDelta] {
        let id = event["toolCallId"]?.string ?? calls.last?.id ?? ""
        if !calls.contains(where: { $0.id == id }), let name = event["toolCallName"]?.string {
            try begin(id, name: name, messageID: event["parentMessageId"]?.string)
        }
        guard let place = calls.lastIndex(where: { $0.id == id }) else { return [] }
        try append(calls[place].halves.text(of: event["delta"]) ?? "", to: place)
        return offered.contains(calls[place].name) ? [] : passOn(event, type)
    }

    private mutating func begin(
        _ id: String, name: String, messageID: String?
    ) throws(AgentError) {
        guard calls.count < Self.maxCalls else {
            throw .malformedReply(message: "The agent makes too many calls in one run.")
        }
        calls.append(Call(id: id, name: name, messageID: messageID ?? "calls-\(id)"))
    }

    private mutating func append(_ arguments: String, to place: Int) throws(AgentError) {
        argumentBytes += arguments.utf8.count
        guard argumentBytes <= Self.maxArgumentBytes else {
            throw .malformedReply(message: "The arguments of the agent's calls are too long.")
        }
        calls[place].arguments += arguments
    }

    /// The agent has answered a call itself.
    private mutating func handleResult(_ event: JSONValue) -> [ModelDelta] {
        guard let callID = event["toolCallId"]?.string else { return [] }
        note(
            .init(
                id: event["messageId"]?.string ?? "result-\(callID)", callID: callID,
                content: Self.content(event["content"])))
        return passOn(event, "TOOL_CALL_RESULT")
    }

    /// The content of a result: a string, or an array of parts.
    private static func content(_ value: JSONValue?) -> RawJSON {
        guard let value, value.kind == .string || value.kind == .array else {
            return RawJSON("\"\"")
        }
        guard value.rawBytes.count <= maxResultBytes else {
            return RawJSON("\"(The result was too long to be kept.)\"")
        }
        return value.raw
    }

    private mutating func note(_ result: AGUIMemento.OwnStep.Result) {
        guard let place = calls.lastIndex(where: { $0.id == result.callID }) else {
            // A call of an earlier run, which an interrupt has delayed.
            for turn in memento.own.indices {
                for step in memento.own[turn].steps.indices {
                    memento.own[turn].steps[step].note(result)
                }
            }
            return
        }
        calls[place].hasResult = true
        let step = ownStep(of: calls[place])
        own[step].note(result)
    }

    /// The step of a call that the agent answers itself.
    private mutating func ownStep(of call: Call) -> Int {
        let ownCall = AGUIMemento.OwnStep.Call(
            id: call.id, name: call.name, arguments: call.arguments)
        if let place = own.firstIndex(where: { $0.messageID == call.messageID }) {
            if !own[place].calls.contains(where: { $0.id == call.id }) {
                own[place].calls.append(ownCall)
            }
            return place
        }
        own.append(.init(messageID: call.messageID, calls: [ownCall]))
        return own.count - 1
    }

    // MARK: Snapshots

    /// The whole conversation as the agent knows it. For LangGraph it is the only event with the
    /// text of a node that does not stream, with all arguments of a call, and with the id of a
    /// result.
    private mutating func handleSnapshot(_ event: JSONValue) throws(AgentError) -> [ModelDelta] {
        guard let messages = event["messages"]?.elements else { return [] }
        var new: [JSONValue] = []
        for message in messages {
            if message["role"]?.isString("user") == true { new = [] } else { new.append(message) }
        }
        var deltas: [ModelDelta] = []
        for message in new where message["subagentRunId"]?.string == nil {
            guard let id = message["id"]?.string else { continue }
            switch message["role"]?.string {
            case "assistant":
                if !sent.contains(id), let text = message["content"]?.string, !text.isEmpty {
                    deltas += sayWhole(text, id: id)
                }
                for call in message["toolCalls"]?.elements?.map(\.self) ?? [] {
                    try handleSnapshot(call: call, of: id, isNew: !sent.contains(id))
                }
            case "tool":
                guard let callID = message["toolCallId"]?.string,
                    let content = message["content"]
                else { continue }
                if calls.contains(where: { $0.id == callID }) {
                    note(.init(id: id, callID: callID, content: Self.content(content)))
                }
            default: break
            }
        }
        return deltas
    }

    /// A text of a snapshot. Agents that do not keep their ids repeat the streamed text under
    /// another id.
    private mutating func sayWhole(_ text: String, id: String) -> [ModelDelta] {
        guard id != openID, !muted.contains(id) else { return [] }
        let head = AGUIMemento.Message.head(of: text)
        let isSaid = said.contains {
            $0.message.id == id || $0.message.head == head && $0.byteCount == text.utf8.count
        }
        let isBeingSaid = openBytes == text.utf8.count && openHead == head
        return isSaid || isBeingSaid ? [] : say(text, id: id) + close()
    }

    private mutating func handleSnapshot(
        call: JSONValue, of messageID: String, isNew: Bool
    ) throws(AgentError) {
        guard let id = call["id"]?.string, let name = call["function"]?["name"]?.string else {
            return
        }
        if !calls.contains(where: { $0.id == id }) {
            guard isNew else { return }
            try begin(id, name: name, messageID: messageID)
        }
        guard let place = calls.lastIndex(where: { $0.id == id }) else { return }
        calls[place].messageID = messageID
        if calls[place].arguments.isEmpty {
            try append(call["function"]?["arguments"]?.string ?? "", to: place)
        }
    }

    // MARK: The end

    /// The run is over.
    private mutating func end(run event: JSONValue) -> [ModelDelta] {
        isOver = true
        var deltas = close()
        let outcome = event["outcome"]
        var questions: [String] = []
        var interrupts: [AGUIInterrupt] = []
        if outcome?["type"]?.isString("interrupt") == true {
            for value in outcome?["interrupts"]?.elements?.map(\.self) ?? [] {
                guard interrupts.count < AGUIMemento.maxInterrupts,
                    let interrupt = AGUIInterrupt(value)
                else { continue }
                interrupts.append(interrupt)
                if let question = AGUIInterrupt.question(value) { questions.append(question) }
            }
            deltas += passOn(event, "RUN_FINISHED")
        }
        if interrupts.isEmpty, let customQuestion {
            interrupts = [.unnamed]
            questions = [customQuestion].filter { !$0.isEmpty }
        }
        let question = questions.joined(separator: " ")
        if !question.isEmpty {
            deltas.append(.text(question))
            deltas.append(.messageEnded)
        }
        deltas += endCalls(outcome, interrupts)
        if let usage = Self.usage(event["usage"]) { deltas.append(usage) }
        memento.interrupts = interrupts
        memento.question = question
        memento.state = state.value.map { tree in
            RawJSON(String(decoding: encodedJSON { tree.write(to: &$0) }, as: UTF8.self))
        }
        if !own.isEmpty { memento.own.append(.init(turn: turn, steps: own)) }
        memento.limitOwn()
        deltas.append(.memento(provider: provider, text: memento.text))
        return deltas
    }

    /// The calls that the client has to answer, and those that the agent answers or will answer
    /// after an interrupt.
    private mutating func endCalls(
        _ outcome: JSONValue?, _ interrupts: [AGUIInterrupt]
    ) -> [ModelDelta] {
        let pending = outcome?["pendingToolCallIds"]?.elements?.compactMap(\.string) ?? []
        var deltas: [ModelDelta] = []
        for call in calls where !call.hasResult {
            let isWaiting = interrupts.contains { $0.toolCallID == call.id }
            guard offered.contains(call.name), !isWaiting,
                pending.isEmpty || pending.contains(call.id)
            else {
                // After an interrupt the agent answers its calls in the next run.
                if !interrupts.isEmpty { _ = ownStep(of: call) }
                continue
            }
            deltas.append(.functionCallStarted(callID: call.id, name: call.name))
            if !call.arguments.isEmpty { deltas.append(.functionCallArguments(call.arguments)) }
            memento.note(.init(callID: call.id, messageID: call.messageID))
        }
        for index in own.indices { own[index].complete(from: calls.map { ($0.id, $0.arguments) }) }
        return deltas
    }

    /// The question of LangGraph's `on_interrupt`: a text, or JSON with one.
    private static func customQuestion(_ value: JSONValue?) -> String {
        if let value, value.kind == .object { return value["message"]?.string ?? "" }
        guard let text = value?.string else { return "" }
        guard let parsed = try? JSONParser(limits: .ofAnAnswer).parse(text) else { return text }
        return parsed["speech"]?.string ?? parsed["message"]?.string
            ?? parsed["question"]?.string ?? ""
    }

    private static func usage(_ value: JSONValue?) -> ModelDelta? {
        guard let entries = value?.elements, entries.count > 0 else { return nil }
        var (input, cached, output) = (0, 0, 0)
        for entry in entries.prefix(maxCalls) {
            input += entry["inputTokens"]?.tokenCount ?? 0
            cached += entry["cachedInputTokens"]?.tokenCount ?? 0
            output += entry["outputTokens"]?.tokenCount ?? 0
        }
        return .usage(inputTokens: input, cachedTokens: cached, outputTokens: output)
    }

    // MARK: Events for the client

    /// An event as it came, without `rawEvent`: that is the same again in another system's form.
    private func passOn(_ event: JSONValue, _ type: String) -> [ModelDelta] {
        guard event.rawBytes.count <= Self.maxEventBytes || event["rawEvent"] != nil,
            let members = event.members
        else { return [] }
        let value = RawJSON.object { json in
            for (key, value) in members where key != "rawEvent" {
                json.key(text: key)
                json.raw(value.raw)
            }
        }
        guard value.text.utf8.count <= Self.maxEventBytes else { return [] }
        return [.agentEvent(type: type, value: value.onOneLine)]
    }

    /// A change of the state, or the notice that the state is dropped.
    private func passOnState(
        _ event: JSONValue, _ loss: AGUIState.Loss?, _ type: String
    ) -> [ModelDelta] {
        if let loss {
            let value = RawJSON.object { $0.member("reason", loss.rawValue) }
            return [.agentEvent(type: "parley.state.dropped", value: value)]
        }
        guard type == "STATE_SNAPSHOT" else { return passOn(event, type) }
        let value = RawJSON.object { json in
            json.member("type", type)
            json.key("snapshot")
            if let tree = state.value { tree.write(to: &json) } else { json.null() }
        }
        return [.agentEvent(type: type, value: value)]
    }
}

extension AGUIMemento.OwnStep {
    /// Records the result of one of its calls; a later one replaces it.
    fileprivate mutating func note(_ result: Result) {
        guard calls.contains(where: { $0.id == result.callID }) else { return }
        results.removeAll { $0.callID == result.callID }
        results.append(result)
    }

    /// Fills in arguments that were not complete when the step was recorded.
    fileprivate mutating func complete(from arguments: [(id: String, arguments: String)]) {
        for place in calls.indices {
            if let found = arguments.last(where: { $0.id == calls[place].id }) {
                calls[place].arguments = found.arguments
            }
        }
    }
}
