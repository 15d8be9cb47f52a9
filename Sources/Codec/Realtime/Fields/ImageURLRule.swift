// The rule for the images of a user's message.

/// An image's URL, at most `maxImageBytes` long: `https:`, or `data:` with a file type that models
/// support. Invalid URLs are refused here, because an item that no model accepts would fail every
/// later response.
struct ImageURLRule: ValueRule {
    private static let types = ["png", "jpeg", "gif", "webp"]

    var schema: ValueSchema {
        .pattern(
            "^(https://|data:image/(\(Self.types.joined(separator: "|")));base64,)",
            atMost: ClientEventLimits.maxImageBytes, example: "https://a.example/b.png")
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> String {
        let url = try value.text(at: path.text, atMost: ClientEventLimits.maxImageBytes)
        if url.utf8.starts(with: "https://".utf8) { return url }
        for type in Self.types {
            let head = "data:image/\(type);base64,".utf8
            guard let bytes = value.utf8, bytes.starts(with: head) else { continue }
            var file = ByteWriter(capacity: 4_096)
            do {
                try Base64.decode(
                    UnsafeRawBufferPointer(rebasing: bytes.dropFirst(head.count)), into: &file)
            } catch {
                throw .notBase64(path.text)
            }
            guard file.count > 0 else { break }
            return url
        }
        let types = Self.types.joined(separator: ", ")
        throw .invalid(
            path.text, "expected an https: URL, or a data: URL with base64 of image/… (\(types))")
    }
}
