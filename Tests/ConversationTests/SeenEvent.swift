// One line of a conversation: a server event with its relevant fields, or a request to the model.
// Ids are written as i1, i2, … and r1, r2, … in order of appearance.

import Codec
import Foundation
import YAML

/// A line of a conversation's expectations.
struct SeenEvent: Equatable, CustomStringConvertible {
    /// Time in the conversation.
    var at: Int
    /// Names and values, `event` or `asked` first.
    var fields: [(name: String, value: String)]

    /// The line as written in a file.
    var description: String {
        "{" + (["at: \(at)"] + fields.map { "\($0.name): \($0.value)" }).joined(separator: ", ")
            + "}"
    }

    static func == (left: SeenEvent, right: SeenEvent) -> Bool {
        left.description == right.description
    }

    init(at: Int, _ fields: [(name: String, value: String)]) {
        self.at = at
        self.fields = fields
    }

    /// Reads a line of a file.
    init(_ value: YAMLValue) {
        at = value["at"]?.integer ?? 0
        fields = value.members.filter { $0.key != "at" }.map { member in
            (member.key, Self.written(member.value))
        }
    }

    subscript(name: String) -> String? { fields.first { $0.name == name }?.value }

    func integer(_ name: String) -> Int? { self[name].flatMap { Int($0) } }

    /// A text as written in a file: quoted unless it is a plain name or number.
    static func quoted(_ text: String) -> String {
        let isName = text.allSatisfy { $0.isLetter || $0.isNumber || "._-".contains($0) }
        if isName, !text.isEmpty { return text }
        let escaped = text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
            .replacing("\n", with: "\\n")
        return "\"\(escaped)\""
    }

    private static func written(_ value: YAMLValue) -> String {
        switch value {
        case .scalar(let text, _): quoted(text)
        case .list(let items): "[" + items.map { written($0) }.joined(separator: ", ") + "]"
        case .map(let members):
            "{" + members.map { "\($0.key): \(written($0.value))" }.joined(separator: ", ") + "}"
        }
    }
}

/// Collects the lines of one conversation.
struct EventRecord {
    /// Events that repeat the content of others, or report pieces.
    private static let ignored: Set<String> = [
        "session.created", "session.updated", "rate_limits.updated", "conversation.item.added",
        "conversation.item.done", "response.output_item.added", "response.output_item.done",
        "response.content_part.added", "response.content_part.done", "response.output_audio.done",
        "response.output_text.delta", "response.output_audio_transcript.delta",
        "response.output_audio_transcript.done", "response.function_call_arguments.delta",
    ]
    private static let scalars = [
        "audio_start_ms", "audio_end_ms", "name", "arguments", "transcript", "text",
    ]

    private(set) var seen: [SeenEvent] = []
    private var aliases: [String: String] = [:]
    /// Index of the line for the audio of each item.
    private var audioLines: [String: Int] = [:]

    /// Records a request to the model.
    mutating func note(asked messages: [String], at: Int) {
        let texts = messages.map { SeenEvent.quoted($0) }.joined(separator: ", ")
        seen.append(SeenEvent(at: at, [("asked", "[\(texts)]")]))
    }

    /// Records a server event; `audioMilliseconds` if it carries reply audio.
    mutating func note(_ event: [String: Any], audioMilliseconds: Int?, at: Int) {
        let type = event["type"] as? String ?? "?"
        let item = event["item"] as? [String: Any]
        let response = event["response"] as? [String: Any]
        var fields = [(name: "event", value: type)]
        let responseID = event["response_id"] as? String ?? response?["id"] as? String
        if let responseID { fields.append(("response", alias(responseID))) }
        if let id = event["item_id"] as? String ?? item?["id"] as? String {
            fields.append(("item", alias(id)))
        }
        if let audioMilliseconds, let itemID = event["item_id"] as? String {
            return noteAudio(audioMilliseconds, of: itemID, fields, at: at)
        }
        guard !Self.ignored.contains(type) else { return }
        for name in Self.scalars { add(name, event[name]) }
        if type.hasSuffix(".delta") { add("delta", event["delta"]) }
        let details = response?["status_details"] as? [String: Any]
        if type == "response.done" { add("status", response?["status"]) }
        add("reason", details?["reason"])
        let error = (event["error"] ?? details?["error"]) as? [String: Any]
        add("code", error?["code"])
        if type == "response.done" { add("said", Self.said(in: response)) }
        seen.append(SeenEvent(at: at, fields))

        func add(_ name: String, _ value: Any?) {
            switch value {
            case let text as String: fields.append((name, SeenEvent.quoted(text)))
            case let number as NSNumber: fields.append((name, "\(number)"))
            default: break
            }
        }
    }

    /// Records audio of an item: one line has the times of the first and the last piece.
    private mutating func noteAudio(
        _ milliseconds: Int, of itemID: String, _ fields: [(name: String, value: String)],
        at: Int
    ) {
        guard let line = audioLines[itemID] else {
            audioLines[itemID] = seen.count
            let amounts = [("audio_ms", "\(milliseconds)"), ("last", "\(at)")]
            seen.append(SeenEvent(at: at, fields + amounts))
            return
        }
        let before = seen[line].integer("audio_ms") ?? 0
        seen[line].fields[seen[line].fields.count - 2].value = "\(before + milliseconds)"
        seen[line].fields[seen[line].fields.count - 1].value = "\(at)"
    }

    /// The transcript or text of a finished response.
    private static func said(in response: [String: Any]?) -> String? {
        let items = response?["output"] as? [[String: Any]] ?? []
        let parts = items.flatMap { $0["content"] as? [[String: Any]] ?? [] }
        let texts = parts.compactMap { ($0["transcript"] ?? $0["text"]) as? String }
        return texts.isEmpty ? nil : texts.joined(separator: " ")
    }

    /// A short stable name for an id: `item_…` becomes i1, i2, …
    private mutating func alias(_ id: String) -> String {
        if let known = aliases[id] { return known }
        let letter = id.first ?? "?"
        let alias = "\(letter)\(aliases.keys.count { $0.first == letter } + 1)"
        aliases[id] = alias
        return alias
    }
}
