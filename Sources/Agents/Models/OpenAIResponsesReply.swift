// Reads the answers of the Responses API: the events of a stream, and a whole `response` from a
// service that does not stream. AnswerReading splits the bytes into events.
//
// A message of the phase `commentary` is what the agent says while its tools run: where it ends,
// it is spoken at once.
//
// Source: OpenAI API reference, "Streaming events"; Open Responses 2026-04-24. Events and items of
// other kinds, such as reasoning, are skipped.

import Codec
import Session

/// Collects one answer.
struct OpenAIResponsesReply: StreamedAnswer {
    private var calls = CallSequence()
    private var halves = SurrogateHalves()
    /// Items whose text has been passed on, by their place in the output.
    private var passedOnItems: Set<Int> = []
    /// Whether a part of an item has arrived.
    private var hasItems = false
    private var isDone = false
    private var incompleteReason: String?
    private var usage: ModelDelta?
    /// The name of the service, where it keeps the conversation.
    private let keeper: String?
    /// Ids of the calls so far.
    private var callIDs: [String] = []
    /// The memento that the next request goes on from.
    private var memento: ResponsesMemento?

    var isOver: Bool { isDone }

    init() { keeper = nil }

    init(to request: ModelRequest, from service: ModelService) {
        keeper = service.keepsState ? service.name : nil
    }

    mutating func handle(
        event data: UnsafeRawBufferPointer
    ) throws(AgentError) -> [ModelDelta] {
        // Some compatible servers end the stream with `[DONE]`, as chat completions do.
        guard !isDone, !data.isEmpty, !data.elementsEqual("[DONE]".utf8) else { return [] }
        return try AnswerParsers.read(data) { (event) throws(AgentError) in try handle(event) }
    }

    mutating func handle(whole response: JSONValue) throws(AgentError) -> [ModelDelta] {
        guard let items = response["output"]?.elements else { return try handle(response) }
        var deltas: [ModelDelta] = []
        for (place, item) in items.enumerated() { deltas += try end(item, at: place) }
        try end(response)
        return deltas
    }

    mutating func finish() throws(AgentError) -> [ModelDelta] {
        guard isDone else { throw .cutOff }
        var deltas = ModelDelta.texts(halves.finish()) + calls.finish()
        if let incompleteReason { deltas.append(.incomplete(reason: incompleteReason)) }
        if let usage { deltas.append(usage) }
        if let keeper, let memento {
            deltas.append(.memento(provider: keeper, text: memento.text))
        }
        usage = nil
        memento = nil
        return deltas
    }

    private mutating func handle(_ event: JSONValue) throws(AgentError) -> [ModelDelta] {
        if let error = ReportedError(in: event) { throw error.agentError }
        let place = event["output_index"]?.wholeNumber ?? 0
        if event["output_index"] != nil || event["item"] != nil || event["delta"] != nil {
            hasItems = true
        }
        switch event["type"]?.string {
        case "response.output_item.added":
            return event["item"].map { begin($0, at: place) } ?? []
        case "response.output_text.delta", "response.refusal.delta":
            guard let text = try event["delta"]?.saidText(&halves) else { return [] }
            if !text.isEmpty || halves.isWaiting { passedOnItems.insert(place) }
            return ModelDelta.texts(text)
        case "response.function_call_arguments.delta":
            return try calls.append(event["delta"], to: place)
        case "response.function_call_arguments.done":
            return try endCall(at: place, arguments: event["arguments"])
        case "response.output_item.done":
            let half = ModelDelta.texts(halves.finish())
            guard let item = event["item"] else { return half }
            return half + (try end(item, at: place))
        case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
            guard let response = event["response"] else {
                throw .malformedReply(message: "The model server's answer cannot be read.")
            }
            return try end(response, event)
        default: return []
        }
    }

    private mutating func begin(_ item: JSONValue, at place: Int) -> [ModelDelta] {
        guard item.isOfType("function_call"), !calls.state(of: place).isKnown else { return [] }
        let callID = item["call_id"]?.identifier ?? item["id"]?.identifier ?? "call_\(place)"
        if keeper != nil { callIDs.append(callID) }
        return calls.begin(place, callID: callID, name: item["name"]?.string ?? "")
    }

    private mutating func endCall(
        at place: Int, arguments: JSONValue?
    ) throws(AgentError) -> [ModelDelta] {
        var deltas: [ModelDelta] = []
        let state = calls.state(of: place)
        if let arguments, state.isKnown, !state.hasArguments {
            deltas = try calls.append(arguments, to: place)
        }
        return deltas + calls.end(place)
    }

    /// An item is complete; the text or arguments that did not arrive in pieces are passed on now.
    private mutating func end(
        _ item: JSONValue, at place: Int
    ) throws(AgentError) -> [ModelDelta] {
        if item.isOfType("function_call") {
            return begin(item, at: place)
                + (try endCall(at: place, arguments: item["arguments"]))
        }
        guard item.isOfType("message") else { return [] }
        var deltas: [ModelDelta] = []
        if passedOnItems.insert(place).inserted {
            for part in item["content"]?.elements?.map(\.self) ?? [] {
                guard let text = part["text"]?.string ?? part["refusal"]?.string, !text.isEmpty
                else { continue }
                deltas.append(.text(text))
            }
        }
        if item["phase"]?.isString("commentary") == true { deltas.append(.messageEnded) }
        return deltas
    }

    /// The terminal event of a stream. Some services send the items there alone.
    private mutating func end(
        _ response: JSONValue, _ event: JSONValue
    ) throws(AgentError) -> [ModelDelta] {
        var deltas: [ModelDelta] = []
        if !hasItems {
            for (place, item) in (response["output"]?.elements?.map(\.self) ?? []).enumerated() {
                deltas += try end(item, at: place)
            }
        }
        try end(response, as: event["type"]?.string?.split(separator: ".").last.map(String.init))
        return deltas
    }

    /// The response is over.
    /// - Parameter outcome: its status where it does not say it itself.
    private mutating func end(_ response: JSONValue, as outcome: String? = nil) throws(AgentError) {
        if let usage = response["usage"], let input = usage["input_tokens"]?.tokenCount {
            self.usage = .usage(
                inputTokens: input,
                cachedTokens: usage["input_tokens_details"]?["cached_tokens"]?.tokenCount ?? 0,
                outputTokens: usage["output_tokens"]?.tokenCount ?? 0)
        }
        switch response["status"]?.string ?? outcome {
        case "failed", "cancelled":
            guard let error = ReportedError(in: response) else {
                throw .brokenOff(
                    status: 0, message: "The model server broke off: it gave no reason")
            }
            throw error.agentError
        case "incomplete":
            let reason = response["incomplete_details"]?["reason"]?.string
            incompleteReason = reason == "content_filter" ? reason : "max_output_tokens"
        default:
            // The service may remember more of an incomplete answer than the session has.
            guard keeper != nil, let id = response["id"]?.string else { break }
            memento = ResponsesMemento(responseID: id, callIDs: callIDs)
        }
        isDone = true
    }
}

extension JSONValue {
    fileprivate func isOfType(_ name: StaticString) -> Bool {
        self["type"]?.isString(name) ?? false
    }
}
