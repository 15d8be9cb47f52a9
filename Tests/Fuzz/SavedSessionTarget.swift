// Restores sessions from what a store gives back. A state that is refused is a typed error. One that
// is read is written again and read as the same, and a session goes on with it: whatever the state
// says, its events fit the protocol's tables, and no invariant of a session is broken.
//
// An input: a byte of choices, then the fields of a record, each ended by a zero byte: head, settings,
// order, memory, and then items. Each item is stored under its own id, as far as it is JSON.

import Codec
import Session
import Simulation

/// `saved_session`: SavedSession, VoiceSession's restoring.
enum SavedSessionTarget: FuzzTarget {
    static let name = "saved_session"

    /// Most fields of one input.
    private static let maxFields = 16

    static var seeds: [(name: String, bytes: [UInt8])] {
        [("empty", 0), ("text", 300), ("speaking", 900), ("spoken", 20_000)].map { name, time in
            (name, [UInt8(ascii: "0")] + record(savedAfter: time))
        }
    }

    /// A session in the middle of a reply, as a record.
    private static func record(savedAfter milliseconds: Int) -> [UInt8] {
        let client = FuzzedSession(choices: 0, dialect: .ga)
        var parser = ClientEventParser()
        for text in [EventSamples.question, #"{"type":"response.create"}"#] {
            guard let (event, eventID) = try? parser.parse(text) else { continue }
            client.take(.event(event, eventID, audio: []))
        }
        client.wait(milliseconds: milliseconds)
        return Array(client.save().fields().map(\.value).joined(separator: [0]))
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let parts = input.rest().split(
            separator: 0, maxSplits: maxFields, omittingEmptySubsequences: false)
        var fields: [String: [UInt8]] = [:]
        let parser = JSONParser()
        let names = ["head", "settings", "order", "memory"]
        for (index, part) in parts.enumerated() {
            let bytes = Array(part)
            guard index >= names.count else {
                fields[names[index]] = bytes
                continue
            }
            guard let id = (try? parser.parse(bytes))?["item"]?["id"]?.string else { continue }
            fields[SavedSession.fieldName(ofItem: id)] = bytes
        }
        do throws(SavedSessionError) {
            let saved = try SavedSession(fields: fields)
            let written = Dictionary(
                saved.fields().map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
            let again = try? SavedSession(fields: written)
            require(again == saved, "\(saved)\nbecomes \(String(describing: again))")
            let client = try FuzzedSession(restoring: saved, choices: choices)
            client.wait(milliseconds: 3_000)
            client.finish()
        } catch {
            require(!error.explanation.isEmpty, "an error without words")
        }
    }
}
