// The tables behind the generated documents, compared with the parser and the protocol. Everything
// that they allow is accepted, everything that they forbid is refused, and every field is in the
// protocol's own tables or listed here as Parley's.

import Codec
import Foundation
import TestMaterial
import Testing

@Suite struct DocumentTablesTests {
    /// The path or message of the parser's error; nil for an accepted text.
    private static func refusal(of text: String) -> String? {
        do {
            _ = try ClientEventParserTests.parsed(text)
            return nil
        } catch {
            return "\(error.code): \(error.message)"
        }
    }

    // MARK: What clients send

    @Test(arguments: ClientEventType.allCases)
    func whatTheTablesAllowIsAccepted(_ type: ClientEventType) {
        for text in type.table.examples {
            let refusal = Self.refusal(of: text)
            #expect(refusal == nil, "\(refusal ?? "")\n\(text)")
        }
    }

    @Test(arguments: ClientEventType.allCases)
    func whatTheTablesForbidIsRefused(_ type: ClientEventType) {
        for text in type.table.counterexamples {
            #expect(Self.refusal(of: text) != nil, "accepted: \(text)")
        }
    }

    /// Parts that are Parley's alone, or where Parley accepts more than the protocol's tables:
    /// sessions without a type, realtime fields of a transcription session (which the session
    /// refuses), items of MCP servers without a client's id, and "text", the name before general
    /// availability.
    private static let extensions = [
        "output_audio_buffer.played", "parley.ping", "sequence", "transport",
        "speculative_response",
        "min_interruption_ms", "interruption", "patience", "audio/opus", "rate",
        "audio.input.format", "audio.output.format", "none of the alternatives fits {}",
        "session.resume", "session.recording", "RealtimeTranscriptionSession",
        "item.id: is missing",
        "].id: is missing", #"found "text""#,
    ]

    /// Everything that a client may send fits the protocol's tables, with `null` for omitted
    /// fields.
    @Test(arguments: ClientEventType.allCases)
    func whatTheTablesAllowIsTheProtocols(_ type: ClientEventType) {
        for text in type.table.examples where !text.contains(":null") {
            let violations = RealtimeSchema.shared.violations(inClientEvent: text)
                .filter { violation in !Self.extensions.contains { violation.contains($0) } }
            #expect(violations.isEmpty, "\(violations)\n\(text)")
        }
    }

    @Test func everyClientEventOfTheProtocolHasATable() {
        let own = Set(ClientEventType.allCases.map(\.rawValue))
        #expect(
            own.subtracting(RealtimeSchema.shared.clientEventTypes) == [
                "output_audio_buffer.played", "parley.ping",
            ])
        #expect(RealtimeSchema.shared.clientEventTypes.isSubset(of: own))
    }

    // MARK: What the server sends

    /// Events that this server never sends. The tables must change when that does.
    private static let neverSent: Set<String> = [
        "conversation.created", "conversation.item.created",
        "conversation.item.input_audio_transcription.segment",
        "input_audio_buffer.dtmf_event_received", "output_audio_buffer.started",
        "output_audio_buffer.stopped",
    ]

    @Test func theServersEventsAreTheProtocols() {
        let own = Set(ServerEventTables.all.map(\.name))
        #expect(
            own.union(Self.neverSent).filter { !RealtimeSchema.isOwn($0) }
                == RealtimeSchema.shared.serverEventTypes)
        #expect(own.isDisjoint(with: Self.neverSent))
    }

    /// Types, required fields and names match the protocol's tables. Events that do not match the
    /// documents are found wherever a test receives one: RealtimeSchema calls DocumentedEvents.
    @Test(arguments: ServerEventTables.all.map(\.name))
    func whatTheServerMaySendIsTheProtocols(_ name: String) throws {
        let table = try #require(ServerEventTables.all.first { $0.name == name })
        for text in table.examples {
            let violations = RealtimeSchema.shared.violations(inServerEvent: text)
                .filter { violation in !Self.extensions.contains { violation.contains($0) } }
            #expect(violations.isEmpty, "\(violations)\n\(text)")
        }
    }

    @Test func anEventThatTheDocumentsDoNotHaveIsFound() {
        func violations(_ text: String) -> [String] {
            DocumentedEvents.violations(inServerEvent: text)
        }
        let good = #"{"type":"input_audio_buffer.cleared","event_id":"e"}"#
        #expect(violations(good) == [])
        #expect(violations(#"{"type":"input_audio_buffer.cleared"}"#).count == 1)
        #expect(violations(good.replacing("}", with: #","more":1}"#)).count == 1)
        #expect(violations(good.replacing(#""e""#, with: "5")).count == 1)
        #expect(violations(good.replacing("cleared", with: "gone")).count == 1)
    }

    // MARK: The documents

    /// A field that is read but is in no table would be checked and not documented.
    @Test func everyDeclaredFieldIsInATable() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/Codec/Realtime")
        let files = try ["Fields", "Beta"].flatMap {
            try FileManager.default.contentsOfDirectory(
                at: folder.appending(path: $0), includingPropertiesForKeys: nil)
        }
        let declaration = /static let (\w+) = (?:Required|Optional|Defaulted)Field\((.*)/
        var declared = 0
        for file in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for field in text.matches(of: declaration) {
                let name = field.output.1
                // A second declaration of a key has no description: it reads another aspect of a
                // field that is in a table.
                if field.output.2.hasSuffix(#", "")"#) { continue }
                declared += 1
                let isListed = text.contains("\(name).entry") || text.contains("\(name).meaning")
                #expect(isListed, "\(name) in \(file.lastPathComponent)")
            }
        }
        #expect(declared > 60)
    }

    @Test func everyReferenceHasItsSchema() throws {
        var writer = JSONSchemaWriter(JSONWriter(ByteWriter(capacity: 65_536)))
        writer.json.beginObject()
        writer.json.key("events")
        writer.json.beginArray()
        for type in ClientEventType.allCases { writer.schema(.object(type.table)) }
        for table in ServerEventTables.all { writer.schema(.object(table)) }
        writer.json.endArray()
        writer.components()
        writer.json.endObject()
        let text = String(decoding: writer.finish().finish().copiedBytes, as: UTF8.self)
        let document = try JSONParser().parse(text)
        let schemas = try #require(document["schemas"]?.members).map(\.key)
        #expect(Set(schemas).count == schemas.count)
        let references = text.matches(of: #/#\/components\/schemas\/([^"]+)"/#)
            .map { String($0.output.1) }
        #expect(Set(references) == Set(schemas))
        // Two tables with the same name would share a schema, which would be wrong for one of them.
        #expect(schemas.count > 60)
    }
}
