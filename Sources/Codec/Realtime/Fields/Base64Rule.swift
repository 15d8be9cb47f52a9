// Bytes as base64 in an event: the rule, and the decoding, which `input_audio_buffer.append` also
// uses.

/// Bytes as base64, at most `maxAudioBytes`.
struct Base64Rule: ValueRule {
    var schema: ValueSchema { .base64 }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> [UInt8] {
        var decoded = ByteWriter(capacity: 4_096)
        try value.decodeBase64(at: path, into: &decoded)
        return decoded.copiedBytes
    }
}

extension ValueRule where Self == Base64Rule {
    /// Bytes as base64, at most `maxAudioBytes`.
    static var base64: Base64Rule { Base64Rule() }
}

extension JSONValue {
    /// Appends the bytes of a base64 string, at most `maxAudioBytes`.
    func decodeBase64(
        at path: FieldPath, into audio: inout ByteWriter
    ) throws(ClientEventError) {
        guard let text = utf8 else {
            throw .wrongType(path.text, expected: "a string of base64", self)
        }
        let byteCount = Base64.decodedCount(of: text)
        guard byteCount <= ClientEventLimits.maxAudioBytes else {
            throw .tooMany(
                path.text, "bytes", atMost: ClientEventLimits.maxAudioBytes, got: byteCount)
        }
        do {
            try Base64.decode(text, into: &audio)
        } catch {
            throw .notBase64(path.text)
        }
    }
}
