// Reads the answers of the Messages API: the events of a stream, and a whole `message` from a
// service that does not stream. AnswerReading splits the bytes into events.
//
// Source: Anthropic API reference, "Streaming Messages". Events and blocks of other kinds are
// skipped, as it demands.

import Codec
import Session

/// Collects one answer.
struct AnthropicMessagesReply: StreamedAnswer {
    private var calls = CallSequence()
    private var halves = SurrogateHalves()
    private var stopReason: String?
    private var isDone = false
    /// Whether a block has begun.
    private var hasContent = false
    /// The token counts last reported: read, read from a cache, written to a cache, and generated.
    private var inputTokens = 0
    private var cachedTokens = 0
    private var newlyCachedTokens = 0
    private var outputTokens: Int?

    var isOver: Bool { isDone }
    /// After the reason only `message_stop` follows.
    var isComplete: Bool { isDone || stopReason != nil }

    mutating func handle(
        event data: UnsafeRawBufferPointer
    ) throws(AgentError) -> [ModelDelta] {
        // Gateways end the stream with `[DONE]`, as chat completions do.
        guard !data.isEmpty, !data.elementsEqual("[DONE]".utf8) else { return [] }
        return try AnswerParsers.read(data) { (event) throws(AgentError) in try handle(event) }
    }

    mutating func handle(whole message: JSONValue) throws(AgentError) -> [ModelDelta] {
        guard let content = message["content"]?.elements else { return try handle(message) }
        noteUsage(message["usage"])
        var deltas: [ModelDelta] = []
        for (index, block) in content.enumerated() {
            deltas += try begin(block, index: index)
            deltas += calls.end(index)
        }
        stopReason = message["stop_reason"]?.string ?? "end_turn"
        return deltas
    }

    mutating func finish() throws(AgentError) -> [ModelDelta] {
        // `message_stop` alone is the end of nothing.
        guard stopReason != nil || isDone && hasContent else { throw .cutOff }
        var deltas = ModelDelta.texts(halves.finish()) + calls.finish()
        switch stopReason {
        case "max_tokens", "model_context_window_exceeded":
            deltas.append(.incomplete(reason: "max_output_tokens"))
        case "refusal": deltas.append(.incomplete(reason: "content_filter"))
        default: break  // The end of the text, a stop sequence or a call ended it.
        }
        if let outputTokens {
            // This service's `input_tokens` leaves out the tokens read from or written to a cache.
            deltas.append(
                .usage(
                    inputTokens: inputTokens + cachedTokens + newlyCachedTokens,
                    cachedTokens: cachedTokens, outputTokens: outputTokens))
        }
        outputTokens = nil
        return deltas
    }

    private mutating func handle(_ event: JSONValue) throws(AgentError) -> [ModelDelta] {
        if let error = ReportedError(in: event) { throw error.agentError }
        let index = event["index"]?.wholeNumber ?? 0
        switch event["type"]?.string {
        case "message_start":
            noteUsage(event["message"]?["usage"])
            return []
        case "content_block_start":
            guard let block = event["content_block"] else { return [] }
            return try begin(block, index: index)
        case "content_block_delta":
            hasContent = true
            let delta = event["delta"]
            if let json = delta?["partial_json"], !json.isNull {
                return try calls.append(json, to: index)
            }
            // Reasoning and its signatures come in fields of other names, which are skipped.
            return ModelDelta.texts(try delta?["text"]?.saidText(&halves) ?? "")
        case "content_block_stop": return ModelDelta.texts(halves.finish()) + calls.end(index)
        case "message_delta":
            noteUsage(event["usage"])
            if let reason = event["delta"]?["stop_reason"]?.string { stopReason = reason }
            return []
        case "message_stop":
            isDone = true
            return []
        default: return []  // `ping`, and kinds to come.
        }
    }

    private mutating func begin(
        _ block: JSONValue, index: Int
    ) throws(AgentError) -> [ModelDelta] {
        hasContent = true
        switch block["type"]?.string {
        case "text":
            return ModelDelta.texts(try block["text"]?.saidText(&halves) ?? "")
        case "tool_use":
            var deltas = calls.begin(
                index, callID: block["id"]?.identifier ?? "call_\(index)",
                name: block["name"]?.string ?? "")
            // In a stream the input is empty here and follows in pieces.
            if let input = block["input"], input.kind != .object || input.count > 0 {
                deltas += try calls.append(input, to: index)
            }
            return deltas
        default: return []
        }
    }

    /// Replaces the counts: each report covers the whole answer so far.
    private mutating func noteUsage(_ usage: JSONValue?) {
        guard let usage else { return }
        if let tokens = usage["input_tokens"]?.tokenCount { inputTokens = tokens }
        if let tokens = usage["cache_read_input_tokens"]?.tokenCount { cachedTokens = tokens }
        if let tokens = usage["cache_creation_input_tokens"]?.tokenCount {
            newlyCachedTokens = tokens
        }
        if let tokens = usage["output_tokens"]?.tokenCount { outputTokens = tokens }
    }
}
