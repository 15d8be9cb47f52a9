// What reading JSON costs: its length and no more, also where it is broken, and whatever its strings are
// made of. The parser itself is simdjson's, in one pass; these are the readers around it.

import TestMaterial
import Testing

@testable import Codec

@Suite struct JSONCostTests {
    @Test func brokenEvents() {
        let found = TextShape.tooExpensive(bytes: 8_000) { text in
            TextSteps.counting {
                var events = ClientEventParser()
                var bytes = Array("{\"type\":\"x\",\(text)".utf8)
                bytes.withUnsafeMutableBytes { _ = try? events.parse(UnsafeRawBufferPointer($0)) }
            }
        }
        #expect(found == [])
    }

    @Test func deltasOfAStream() {
        let found = TextShape.tooExpensive(bytes: 8_000) { text in
            var writer = JSONWriter(ByteWriter(capacity: 64))
            writer.object { $0.member("content", text) }
            let content = writer.finish().copiedBytes
            let event = Array("{\"choices\":[{\"delta\":".utf8) + content + Array("}]}".utf8)
            return TextSteps.counting {
                _ = event.withUnsafeBytes { ChatDeltaScanner.text(of: $0) }
                let parser = JSONParser()
                var halves = SurrogateHalves()
                let root = try? parser.parse(event)
                let delta = root?["choices"]?.elements?.first { _ in true }?["delta"]
                _ = halves.text(of: delta?["content"])
            }
        }
        #expect(found == [])
    }

    @Test func membersOfAnObject() throws {
        let steps = try [1_000, 4_000].map { count in
            let members = (0..<count).map { "\"k\($0)\":\($0)" }.joined(separator: ",")
            let root = try JSONParser().parse("{\(members)}")
            return TextSteps.counting { for _ in 0..<20 { _ = root["none"] } }
        }
        #expect(steps[0] > 0 && Double(steps[1]) <= 4.5 * Double(steps[0]))
    }

    @Test func anEventStreamInAnyPieces() {
        for size in [1, 100, 100_000] {
            let found = TextShape.tooExpensive(bytes: 2_000) { text in
                let stream = Array("data: \(text)\n\ndata: \(text)".utf8)
                return TextSteps.counting {
                    var parser = ServerSentEventsParser()
                    for start in stride(from: 0, to: stream.count, by: size) {
                        let piece = stream[start..<min(stream.count, start + size)]
                        piece.withUnsafeBytes { bytes in
                            try? parser.append(bytes) { _ in }
                        }
                    }
                }
            }
            #expect(found == [])
        }
    }
}
