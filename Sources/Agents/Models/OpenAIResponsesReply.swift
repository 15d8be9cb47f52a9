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
    private var isDone = false
    private var incompleteReason: String?
    private var usage: ModelDelta?
    /// The name of a service that keeps the conversation; nil: it does not.
    private let keeper: String?
    /// Ids of the calls so far.
    private var callIDs: [String] = []
    /// What the next request goes on from.
    private var memento: ResponsesMemento?

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
        for (place, item) in items.enumerated() { deltas += end(item, at: place) }
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
        let place = event["output_index"]?.int ?? 0
        switch event["type"]?.string {
        case "response.output_item.added":
            return event["item"].map { begin($0, at: place) } ?? []
        case "response.output_text.delta", "response.refusal.delta":
            guard let text = halves.text(of: event["delta"]) else { return [] }
            if !text.isEmpty || halves.isWaiting { passedOnItems.insert(place) }
            return ModelDelta.texts(text)
        case "response.function_call_arguments.delta":
            return calls.append(event["delta"], to: place)
        case "response.function_call_arguments.done":
            return endCall(at: place, arguments: event["arguments"]?.string)
        case "response.output_item.done":
            return ModelDelta.texts(halves.finish())
                + (event["item"].map { end($0, at: place) } ?? [])
        case "response.completed", "response.incomplete", "response.failed":
            guard let response = event["response"] else {
                throw .malformedReply(message: "The model server's answer cannot be read.")
            }
            try end(response)
            return []
        case "error":
            throw Self.failure(event["error"] ?? event)
        default: return []
        }
    }

    private mutating func begin(_ item: JSONValue, at place: Int) -> [ModelDelta] {
        guard item.isOfType("function_call"), !calls.state(of: place).isKnown else { return [] }
        let callID = item["call_id"]?.string ?? item["id"]?.string ?? "call_\(place)"
        if keeper != nil { callIDs.append(callID) }
        return calls.begin(place, callID: callID, name: item["name"]?.string ?? "")
    }

    private mutating func endCall(at place: Int, arguments: String?) -> [ModelDelta] {
        var deltas: [ModelDelta] = []
        let state = calls.state(of: place)
        if let arguments, state.isKnown, !state.hasArguments {
            deltas = calls.append(arguments, to: place)
        }
        return deltas + calls.end(place)
    }

    /// An item is complete; the text or arguments that did not arrive in pieces are passed on now.
    private mutating func end(_ item: JSONValue, at place: Int) -> [ModelDelta] {
        if item.isOfType("function_call") {
            return begin(item, at: place)
                + endCall(at: place, arguments: item["arguments"]?.string)
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

    /// The response is over.
    private mutating func end(_ response: JSONValue) throws(AgentError) {
        if let usage = response["usage"], let input = usage["input_tokens"]?.tokenCount {
            self.usage = .usage(
                inputTokens: input,
                cachedTokens: usage["input_tokens_details"]?["cached_tokens"]?.tokenCount ?? 0,
                outputTokens: usage["output_tokens"]?.tokenCount ?? 0)
        }
        switch response["status"]?.string {
        case "failed", "cancelled":
            guard let error = response["error"], !error.isNull else {
                throw .brokenOff(status: 0, nil)
            }
            throw Self.failure(error)
        case "incomplete":
            let reason = response["incomplete_details"]?["reason"]?.string
            incompleteReason = reason == "content_filter" ? reason : "max_output_tokens"
        default:
            // Of an incomplete answer the service may remember more than the session has.
            guard keeper != nil, let id = response["id"]?.string else { break }
            memento = ResponsesMemento(responseID: id, callIDs: callIDs)
        }
        isDone = true
    }

    private static func failure(_ error: JSONValue) -> AgentError {
        let status =
            switch error["code"]?.string {
            case "rate_limit_exceeded": 429
            case "server_error": 500
            case "invalid_prompt": 400
            case ServiceErrorBody.forgottenAnswer: 404
            default: 0
            }
        return .brokenOff(status: status, error["message"]?.string ?? error.raw.text)
    }
}

extension JSONValue {
    fileprivate func isOfType(_ name: StaticString) -> Bool {
        self["type"]?.isString(name) ?? false
    }
}
