// How much of a reply the client has not heard when a session is saved, and which response is to
// follow. SpeechRest has the words themselves, from the conversation.
//
// Invariant: `parts` are in the order in which they are spoken.

import Codec

/// A reply that is not heard to its end.
struct UnheardReply: Equatable, Sendable {
    /// How much of an item was heard.
    struct Part: Equatable, Sendable {
        var itemID: String
        /// Milliseconds of its audio.
        var heard: Int
    }

    /// Items that were not heard to the end of their words. Nothing after them was heard.
    var parts: [Part] = []
    /// Items of the response in flight; empty: none is.
    var itemIDs: [String] = []
    /// Whether some of its audio was sent.
    var isSpoken = false
    /// Whether the model had written all of it.
    var isWritten = true
    /// Why the model itself wrote no more, or nil.
    var incompleteReason: String?
    /// Whether the response called tools of MCP servers, whose results no model has seen.
    var hasToolResults = false
    /// The tokens that the model has reported; none before it has finished.
    var usage = ResponseUsage()
    /// The parameters of the response.
    var overrides = ResponseParameters()

    init() {}

    // MARK: JSON

    /// The most items of a response and of those before it that were not heard.
    private static let maxItems = 4_096

    func write(into json: inout JSONWriter) {
        json.object { json in
            json.array("parts") { json in
                for part in parts {
                    json.object { json in
                        json.member("item", part.itemID)
                        json.member("heard_ms", part.heard)
                    }
                }
            }
            json.texts("items", itemIDs)
            json.member("is_spoken", isSpoken)
            json.member("is_written", isWritten)
            if let incompleteReason { json.member("reason", incompleteReason) }
            json.member("has_tool_results", hasToolResults)
            json.member("input_tokens", usage.inputTextTokens)
            json.member("cached_tokens", usage.cachedTokens)
            json.member("output_tokens", usage.outputTextTokens)
            json.key("overrides")
            json.savedOverrides(overrides)
        }
    }

    init(_ fields: SavedFields) throws(SavedSessionError) {
        parts = try fields.list("parts", atMost: Self.maxItems) {
            (value) throws(SavedSessionError) in
            let part = try SavedFields(value, "parts")
            return Part(
                itemID: try part.id("item"),
                heard: try part.integer("heard_ms", in: SavedFields.milliseconds))
        }
        itemIDs = try fields.ids("items", atMost: Self.maxItems)
        isSpoken = try fields.bool("is_spoken")
        isWritten = try fields.bool("is_written")
        if fields.object["reason"]?.isNull == false { incompleteReason = try fields.text("reason") }
        hasToolResults = try fields.bool("has_tool_results")
        // A model's counts are its own affair: none of them makes a state unreadable.
        usage.inputTextTokens = Self.tokens(fields.object["input_tokens"])
        usage.cachedTokens = Self.tokens(fields.object["cached_tokens"])
        usage.outputTextTokens = Self.tokens(fields.object["output_tokens"])
        let value = try fields.required("overrides")
        do throws(ClientEventError) {
            overrides = try ResponseParameters(saved: value)
        } catch { throw .settings(error) }
        // Only responses in the conversation are saved.
        overrides.isInConversation = true
    }

    /// A count of which sums cannot overflow.
    private static func tokens(_ value: JSONValue?) -> Int {
        min(max(0, value?.int ?? 0), 1 << 40)
    }
}
