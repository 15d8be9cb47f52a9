// Reads the answers of chat completions: the `chat.completion.chunk` objects of a stream, and a
// whole `chat.completion`. AnswerReading splits the bytes into events.
//
// Invariant: the deltas of function calls are passed on one call after the other, as `ModelDelta`
// requires. The service does not mark a call's end, so the first call streams and the others wait
// for the end of the answer.
//
// An answer is over with `[DONE]`. It is complete if a reason for its end came, or words or calls:
// a `[DONE]` alone is the end of nothing. Servers that send no `[DONE]` leave the stream open after
// the reason, or end it.

import Codec
import Session

/// Collects one answer.
struct ChatCompletionsReply: StreamedAnswer {
    /// A function call as far as it has arrived.
    private struct Call {
        var index: Int
        var callID: String
        var name = ""
        /// Arguments that have not been passed on.
        var arguments = ""
        var halves = SurrogateHalves()
        var hasStarted = false
    }

    private var calls: [Call] = []
    private var halves = SurrogateHalves()
    private var completionID = ""
    private var finishReason: String?
    /// Whether a choice has arrived; an answer without one is not a completion.
    private var hasChoice = false
    /// Whether text has arrived.
    private var hasText = false
    /// Whether the reason for the end came in a piece without words. Some services write a reason
    /// into every piece.
    private var isAtEnd = false
    private var isDone = false
    private var usage: ModelDelta?
    /// The tag of a thought that the prompt opened. It is put before the answer's first words.
    private var opening = ""

    init() {}

    init(to request: ModelRequest, from service: ModelService) {
        if service.thinksFirst { opening = "<think>" }
    }

    var isOver: Bool { isDone }
    var isComplete: Bool { isDone || isAtEnd }

    mutating func handle(
        event data: UnsafeRawBufferPointer
    ) throws(AgentError) -> [ModelDelta] {
        if data.elementsEqual("[DONE]".utf8) {
            isDone = true
            return []
        }
        guard !isDone, !data.isEmpty else { return [] }
        return try AnswerParsers.read(data) { (piece) throws(AgentError) in try handle(piece) }
    }

    /// The text of a chunk that contains nothing else. Valid once text has arrived, and with it the
    /// completion's id: from then on such a chunk changes no state.
    func text(ofEvent data: UnsafeRawBufferPointer) -> String? {
        hasText && !isAtEnd && !isDone && !halves.isWaiting
            ? ChatDeltaScanner.text(of: data) : nil
    }

    mutating func handle(whole completion: JSONValue) throws(AgentError) -> [ModelDelta] {
        let deltas = try handle(completion)
        guard hasChoice else { throw .noChoice }
        isDone = true
        return deltas
    }

    mutating func finish() throws(AgentError) -> [ModelDelta] {
        guard isDone || finishReason != nil else { throw .cutOff }
        guard hasText || finishReason != nil || !calls.isEmpty else { throw .noChoice }
        var deltas = ModelDelta.texts(halves.finish())
        for var call in calls {
            if !call.hasStarted {
                deltas.append(.functionCallStarted(callID: call.callID, name: call.name))
            }
            let arguments = call.arguments + call.halves.finish()
            if !arguments.isEmpty { deltas.append(.functionCallArguments(arguments)) }
        }
        calls = []
        if finishReason == "length" { deltas.append(.incomplete(reason: "max_output_tokens")) }
        if finishReason == "content_filter" {
            deltas.append(.incomplete(reason: "content_filter"))
        }
        if let usage { deltas.append(usage) }
        usage = nil
        return deltas
    }

    private mutating func handle(_ chunk: JSONValue) throws(AgentError) -> [ModelDelta] {
        if let error = ReportedError(in: chunk) { throw error.agentError }
        if completionID.isEmpty, let id = chunk["id"]?.identifier { completionID = id }
        if let usage = chunk["usage"] { noteUsage(usage) }
        guard let choice = try chunk["choices"]?.listed("choices").first else { return [] }
        // OpenRouter and Mistral report a failure of the model behind them in the choice.
        if let error = ReportedError(in: choice) { throw error.agentError }
        let reason = choice["finish_reason"]?.string ?? ""
        guard reason != "error" else {
            throw .brokenOff(
                status: 0, message: "The model server broke off: its finish_reason is \"error\".")
        }
        hasChoice = true
        var deltas: [ModelDelta] = []
        if let delta = choice["delta"] ?? choice["message"] { deltas = try read(delta) }
        if !deltas.isEmpty { isAtEnd = false }
        // Some services write an empty reason into every piece.
        guard !reason.isEmpty else { return deltas }
        finishReason = reason
        isAtEnd = deltas.isEmpty
        return deltas
    }

    private mutating func read(_ delta: JSONValue) throws(AgentError) -> [ModelDelta] {
        guard delta.kind == .object || delta.isNull else { throw .unknownType("delta") }
        var deltas: [ModelDelta] = []
        // A server that sends thoughts in a field of their own has closed the thought that the
        // prompt opened. A refusal follows no thought.
        if ["reasoning_content", "reasoning"].contains(where: { delta[$0]?.string != nil }) {
            opening = ""
        }
        for (field, prefix) in [(delta["content"], opening), (delta["refusal"], "")] {
            guard let text = try field?.saidText(&halves), !text.isEmpty else { continue }
            hasText = true
            opening = ""
            deltas.append(.text(prefix + text))
        }
        if let fragments = try delta["tool_calls"]?.listed("tool_calls") {
            deltas += ModelDelta.texts(halves.finish())
            for (position, fragment) in fragments.enumerated() {
                deltas += try handleCall(fragment, position: position)
            }
        }
        return deltas
    }

    /// Reads a fragment of a call. The fragments of one call share an index. Some services leave it
    /// out and send whole calls in a list; others give every call index 0 and a different id.
    private mutating func handleCall(
        _ fragment: JSONValue, position: Int
    ) throws(AgentError) -> [ModelDelta] {
        guard fragment.kind == .object else { throw .unknownType("tool_calls") }
        let index = fragment["index"]?.wholeNumber ?? position
        let callID = fragment["id"]?.identifier ?? ""
        let function = fragment["function"]
        let name = function?["name"]?.string ?? ""
        let known = calls.lastIndex { $0.index == index }
        let place: Int
        if let known, callID.isEmpty || calls[known].callID == callID {
            place = known
        } else {
            place = calls.count
            let fallback = "call_\(completionID)_\(place)"
            calls.append(Call(index: index, callID: callID.isEmpty ? fallback : callID))
        }
        if calls[place].name.isEmpty { calls[place].name = name }
        let more = try function?["arguments"]?.callArguments(&calls[place].halves) ?? ""
        calls[place].arguments += more
        return place == 0 ? takeFirstCall() : []
    }

    private mutating func takeFirstCall() -> [ModelDelta] {
        guard !calls[0].name.isEmpty else { return [] }
        var deltas: [ModelDelta] = []
        if !calls[0].hasStarted {
            calls[0].hasStarted = true
            deltas.append(.functionCallStarted(callID: calls[0].callID, name: calls[0].name))
        }
        if !calls[0].arguments.isEmpty {
            deltas.append(.functionCallArguments(calls[0].arguments))
            calls[0].arguments = ""
        }
        return deltas
    }

    /// Replaces the usage: some services repeat the usage so far with every chunk.
    private mutating func noteUsage(_ usage: JSONValue) {
        guard let input = usage["prompt_tokens"]?.tokenCount else { return }
        self.usage = .usage(
            inputTokens: input,
            cachedTokens: usage["prompt_tokens_details"]?["cached_tokens"]?.tokenCount ?? 0,
            outputTokens: usage["completion_tokens"]?.tokenCount ?? 0)
    }
}

extension AgentError {
    /// The answer has ended, and it has no choice.
    fileprivate static let noChoice = AgentError.malformedReply(
        message: "The model server's answer holds no choice.")
}
