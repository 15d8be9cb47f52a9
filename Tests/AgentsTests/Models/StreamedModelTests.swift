// Shared by the tests of services that stream named events: building a stream, and checking that an
// answer gives the same result however it is split (Splits).

import Session
import Testing

/// A suite of tests for one such service.
protocol StreamedModelTests {
    /// The client of the service.
    var model: any LanguageModel { get }
    /// A request; the scripted answer does not depend on it.
    var question: ModelRequest { get }
}

extension StreamedModelTests {
    /// An event stream of these events, each with its `type` as the event's name.
    static func stream(_ events: [String]) -> [UInt8] {
        Array(
            events.map { event in
                let type = event.dropFirst(9).prefix { $0 != "\"" }
                return "event: \(type)\ndata: \(event)\n\n"
            }.joined().utf8)
    }

    /// Checks the deltas of a stream of events, split in every way.
    func expect(
        _ events: [String], gives expected: [ModelDelta],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let bytes = Self.stream(events)
        for chunks in Splits.all(of: bytes) + Splits.inTwo(bytes) {
            let host = ScriptedAgentHost(answers: [.init(chunks: chunks)])
            let deltas = try await model.deltas(for: question, on: host)
            #expect(deltas == expected, sourceLocation: sourceLocation)
        }
    }
}
