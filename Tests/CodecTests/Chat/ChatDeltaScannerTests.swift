// The chunk scanner compared with the JSON parser: it accepts the common chunks of known services,
// finds the same text, and accepts nothing that the parser refuses, however a chunk is damaged.

import Codec
import TestMaterial
import Testing

@Suite struct ChatDeltaScannerTests {
    private static let plain = """
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",\
        "choices":[{"index":0,"delta":{"content":" hello"},"finish_reason":null}]}
        """
    /// Chunks as OpenAI, vLLM, llama.cpp and Ollama write them.
    private static let usual = [
        plain,
        """
        {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt",\
        "service_tier":"default","system_fingerprint":null,"choices":[{"index":0,\
        "delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null,\
        "obfuscation":"x"}
        """,
        """
        {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":" hello",\
        "tool_calls":null,"refusal":null}}],"created":-12,"timings":{"a":[1,{"b":[]}],"c":true}}
        """,
        "{ \"choices\" : [ { \"delta\" : { \"content\" : \" hello\" } } ] , \"x\" : {} }\n",
    ]
    /// Chunks with more than text, or with text in an uncommon form.
    private static let others = [
        #"{"choices":[{"index":0,"delta":{"content":"a\nb"},"finish_reason":null}]}"#,
        #"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}"#,
        #"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x","refusal":"no"}}]}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x","tool_calls":[]}}]}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x"}}],"error":{"message":"m"}}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x"}},{"index":1,"delta":{"content":"y"}}]}"#,
        #"{"choices":[{"index":0,"delta":{"content":"x","content":"y"}}]}"#,
        #"{"choices":[{"delta":{"content":"x"},"delta":{"content":"y"}}]}"#,
        #"{"choices":[{"delta":{"content":"x"}}],"choices":[]}"#,
        #"{"choices":[{"delta":{"content":"x"},"message":{"content":"y"}}]}"#,
        #"{"choices":[],"usage":null}"#, #"{"choices":null}"#, #"{}"#, #"[]"#, "",
    ]

    private func scan(_ bytes: [UInt8]) -> String? {
        bytes.withUnsafeBytes { ChatDeltaScanner.text(of: $0) }
    }

    @Test(arguments: usual)
    func findsTheTextOfAUsualChunk(chunk: String) {
        #expect(scan(Array(chunk.utf8)) == " hello")
    }

    @Test func findsTextThatIsNotASCII() {
        let chunk = Self.plain.replacing(" hello", with: "Grüße 👋")
        #expect(scan(Array(chunk.utf8)) == "Grüße 👋")
    }

    @Test(arguments: others)
    func leavesEverythingElseToTheParser(chunk: String) {
        #expect(scan(Array(chunk.utf8)) == nil)
    }

    @Test func leavesDeeplyNestedDocumentsToTheParser() {
        let deep = String(repeating: "[", count: 10_000) + String(repeating: "]", count: 10_000)
        let chunk = #"{"x":\#(deep),"choices":[{"delta":{"content":"x"}}]}"#
        #expect(scan(Array(chunk.utf8)) == nil)
    }

    @Test(arguments: usual)
    func acceptsNoIncompleteChunk(chunk: String) {
        let bytes = Array(chunk.utf8)
        let whole = bytes.lastIndex(of: UInt8(ascii: "}"))!
        for end in 0...whole { #expect(scan(Array(bytes[..<end])) == nil) }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func acceptsOnlyWhatTheParserAcceptsWithTheSameText(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let parser = JSONParser()
        let alphabet = Array(#"{}[]",:\0123456789-+.eEntrufalschoid \#u{9}\#u{0}é"#.utf8) + [0xFF]
        var accepted = 0
        for _ in 0..<4_000 {
            var bytes = Array(Self.usual.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let place = bytes.indices.randomElement(using: &random)!
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes.remove(at: place)
                case 1: bytes.insert(alphabet.randomElement(using: &random)!, at: place)
                case 2: bytes.insert(contentsOf: bytes[place...].prefix(20), at: place)
                default: bytes[place] = alphabet.randomElement(using: &random)!
                }
            }
            guard let text = scan(bytes) else { continue }
            accepted += 1
            let value = try? bytes.withUnsafeBytes { try parser.parse($0) }
            var choices = value?["choices"]?.elements
            let choice = choices?.next()
            let found = choice?["delta"]?["content"]?.string
            guard found == text, choices?.next() == nil, choice?["finish_reason"]?.isNull ?? true
            else {
                Issue.record("\(String(decoding: bytes, as: UTF8.self)): \(text)")
                return
            }
        }
        #expect(accepted > 500)
    }
}
