// Finding the credential in a request, and its building blocks: base64url and SHA-256 digests.

import Testing

@testable import Codec

@Suite struct RequestCredentialTests {
    private func credential(_ fields: (String, String)...) -> RequestCredential {
        var head = HTTPFields()
        for (name, value) in fields { head.append(name, value) }
        return RequestCredential(head)
    }

    @Test(arguments: [0, 1, 63, 64, 65, 1_000_000])
    func piecesHaveTheDigestOfTheWhole(byteCount: Int) {
        let bytes = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        for size in [1, 64, 4_096] where byteCount < 10_000 || size > 1 {
            var hasher = SHA256Hasher()
            for start in stride(from: 0, to: byteCount, by: size) {
                bytes[start..<min(start + size, byteCount)].withUnsafeBytes { hasher.append($0) }
            }
            #expect(hasher.finished() == bytes.withUnsafeBytes { SHA256Digest(of: $0) })
        }
    }

    @Test func aDigestIsReadFromHexadecimalDigits() {
        // FIPS 180-4, the example "abc".
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(SHA256Digest(hexadecimal: text) == SHA256Digest(of: "abc"))
        #expect(SHA256Digest(hexadecimal: text.uppercased()) == SHA256Digest(of: "abc"))
        for wrong in [
            "", "ba", text + "0", String(text.dropLast()), text.dropLast() + "g",
            text.dropLast() + "é",
        ] {
            #expect(SHA256Digest(hexadecimal: wrong) == nil)
        }
    }

    @Test func aHeaderIsRead() {
        #expect(credential() == .none)
        #expect(credential(("Authorization", "Bearer sk-1")) == .bearer("sk-1"))
        #expect(credential(("authorization", "bEARER   sk-1")) == .bearer("sk-1"))
        let signs = "a.b-c_d~e+f/g=="
        #expect(credential(("Authorization", "Bearer " + signs)) == .bearer(signs))
    }

    @Test(arguments: [
        "", "Bearer", "Bearer ", "Basic dTpw", "sk-1", "Bearer a b", "Bearer a,b c", "Bearer\tsk-1",
        "Bearer sk\u{7F}", "Bearer ü", "Bearersk-1", "Token sk-1",
    ])
    func otherHeadersAreMalformed(value: String) {
        #expect(credential(("Authorization", value)) == .malformed)
    }

    @Test func aCredentialHasALongestLength() {
        let longest = String(repeating: "k", count: RequestCredential.maxBytes)
        #expect(credential(("Authorization", "Bearer " + longest)) == .bearer(longest))
        #expect(credential(("Authorization", "Bearer k" + longest)) == .malformed)
        #expect(
            credential(("Sec-WebSocket-Protocol", "openai-insecure-api-key.k" + longest))
                == .malformed)
    }

    /// Two readers might use different ones of them.
    @Test func twoHeadersAreMalformed() {
        #expect(
            credential(("Authorization", "Bearer a"), ("Authorization", "Bearer b")) == .malformed)
        #expect(
            credential(("Authorization", "Bearer a"), ("Authorization", "Bearer a")) == .malformed)
    }

    @Test func aBrowsersSubprotocolIsRead() {
        let offer = "realtime, openai-insecure-api-key.ek_1, openai-agents-sdk.0.4"
        #expect(credential(("Sec-WebSocket-Protocol", offer)) == .bearer("ek_1"))
        #expect(
            credential(
                ("Sec-WebSocket-Protocol", "realtime"),
                ("Sec-WebSocket-Protocol", "openai-insecure-api-key.a.b.c")) == .bearer("a.b.c"))
        #expect(credential(("Sec-WebSocket-Protocol", "realtime")) == .none)
        #expect(credential(("Sec-WebSocket-Protocol", "openai-insecure-api-key.")) == .malformed)
        #expect(credential(("Sec-WebSocket-Protocol", "openai-insecure-api-keyX")) == .none)
        #expect(
            credential(
                (
                    "Sec-WebSocket-Protocol",
                    "openai-insecure-api-key.a,openai-insecure-api-key.b"
                )) == .malformed)
    }

    @Test func theHeaderCountsBeforeTheSubprotocol() {
        #expect(
            credential(
                ("Sec-WebSocket-Protocol", "openai-insecure-api-key.a"),
                ("Authorization", "Bearer b")) == .bearer("b"))
    }

    // MARK: Base64 of URLs

    @Test(arguments: [
        ("", ""), ("Zg", "f"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9vYg", "foob"),
        ("Zm9vYmE", "fooba"), ("Zm9vYmFy", "foobar"), ("w7zDvw", "üÿ"),
    ])
    func theExamplesOfRFC4648AreCoded(text: String, bytes: String) {
        #expect(Base64URL.text(of: Array(bytes.utf8)) == text)
        #expect(Base64URL.decode(text.utf8) == Array(bytes.utf8))
    }

    @Test func allBytesComeBack() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: 0xFF &- $0 &* 37) }
            #expect(Base64URL.decode(Base64URL.text(of: bytes).utf8) == bytes)
        }
        #expect(Base64URL.text(of: [0xFB, 0xEF, 0xFF]) == "--__")
    }

    @Test(arguments: ["A", "AAAAA", "Zg==", "Zm9v\n", "Zm 9", "++++", "////", "Zh", "Zm9", "AB"])
    func whatNoEncoderWritesIsRefused(text: String) {
        #expect(Base64URL.decode(text.utf8) == nil)
    }

    // MARK: Digests

    @Test func aDigestIsSHA256() {
        let bytes = SHA256Digest(of: "abc").bytes
        let text = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(text == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }

    @Test func digestsMatchOnlyThemselves() {
        let digest = SHA256Digest(of: "key")
        #expect(digest.matches(SHA256Digest(of: "key")))
        for other in ["", "ke", "keY", "key "] {
            #expect(!digest.matches(SHA256Digest(of: other)))
        }
    }
}
