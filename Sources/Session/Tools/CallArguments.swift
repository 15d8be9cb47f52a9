// The arguments of a call as the model's server has written them, and as clients and tools get
// them: a JSON object. All kinds of models come through here, because their servers differ: a call
// without arguments is nothing, white space, `null` or `{}`, and some servers encode the object
// twice. Half of a surrogate pair, as `\ud83d`, becomes U+FFFD: the services that get the call with the
// next request refuse it, and with it all later ones.
//
// Invariant: a call is never made with other arguments than the model's. Arguments that are no
// object are refused, not replaced.

import Codec

/// Reads the arguments of a call.
enum CallArguments {
    /// The arguments as the text of a JSON object, or nil where they are no such object.
    static func object(_ text: String) -> String? {
        guard text.contains(where: { !$0.isWhitespace }) else { return "{}" }
        // The parser takes only containers, and a text may be `null` or a string.
        guard let list = try? JSONParser().parse("[\(text)]"), list.count == 1,
            let value = list.elements?.first(where: { _ in true })
        else { return nil }
        switch value.kind {
        // The parser's own text is whole.
        case .object: return text.utf8.contains(UInt8(ascii: "\\")) ? value.raw.text : text
        case .null: return "{}"
        case .string:
            guard let inner = try? JSONParser().parse(value.string ?? "") else { return nil }
            return inner.kind == .object ? inner.raw.text : nil
        case .array, .bool, .number: return nil
        }
    }
}
