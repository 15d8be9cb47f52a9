// JSON of others in our own form. JSON of a model may have white space, half of a surrogate pair,
// or words that are not to be kept. PostgreSQL's `jsonb`, for one, refuses half of a pair.

extension RawJSON {
    /// A value of a document, written anew on one line.
    /// - Parameter change: makes other texts of strings, keys and the digits of numbers. A number whose
    ///   digits have changed becomes a string.
    public init(rewriting value: JSONValue, _ change: (String) -> String = { $0 }) {
        var json = JSONWriter(ByteWriter(capacity: value.rawBytes.count))
        json.rewrite(value, change)
        self.init(String(decoding: json.finish().copiedBytes, as: UTF8.self))
    }
}

extension JSONWriter {
    /// Its depth is at most the parser's limit.
    fileprivate mutating func rewrite(_ value: JSONValue, _ change: (String) -> String) {
        switch value.kind {
        case .null, .bool: raw(value.raw)
        case .number:
            let digits = value.raw
            let changed = change(digits.text)
            if changed == digits.text { raw(digits) } else { string(changed) }
        case .string: string(change(value.string ?? ""))
        case .array:
            beginArray()
            for element in value.elements! { rewrite(element, change) }
            endArray()
        case .object:
            beginObject()
            for (name, member) in value.members! {
                key(text: change(name))
                rewrite(member, change)
            }
            endObject()
        }
    }
}
