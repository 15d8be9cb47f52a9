// The rule for the images of a user's message.

/// An image's URL, at most `maxImageBytes` long: `https:`, or `data:` with a file type that models
/// support. Invalid URLs are refused here, because an item that no model accepts would fail every
/// later response.
struct ImageURLRule: ValueRule {
    private static let types = ["png", "jpeg", "gif", "webp"]

    var schema: ValueSchema {
        .pattern(
            "^(https://|data:image/(\(Self.types.joined(separator: "|")));base64,)",
            atMost: ClientEventLimits().maxImageBytes, example: "https://a.example/b.png")
    }

    func read(
        _ value: JSONValue, at path: FieldPath, _ limits: ClientEventLimits
    ) throws(ClientEventError) -> String {
        guard let bytes = value.utf8 else {
            throw .wrongType(path.text, expected: "a string", value)
        }
        guard bytes.count <= limits.maxImageBytes else {
            throw .invalid(
                path.text, "expected at most \(limits.maxImageBytes) bytes, got \(bytes.count)")
        }
        if bytes.starts(with: "https://".utf8) { return String(decoding: bytes, as: UTF8.self) }
        for type in Self.types {
            let head = "data:image/\(type);base64,".utf8
            guard bytes.starts(with: head) else { continue }
            var file = ByteWriter(capacity: 4_096)
            do {
                try Base64.decode(
                    UnsafeRawBufferPointer(rebasing: bytes.dropFirst(head.count)), into: &file)
            } catch {
                throw .invalid(
                    path.text, "expected base64 (RFC 4648 section 4) with its padding")
            }
            guard file.count > 0 else { break }
            return String(decoding: bytes, as: UTF8.self)
        }
        let types = Self.types.joined(separator: ", ")
        throw .invalid(
            path.text, "expected an https: URL, or a data: URL with base64 of image/… (\(types))")
    }
}
