// One agent of the file of agents. `fields` is the list of what may stand in it; docs/agent-files.md
// describes them.

import Codec
import Server
import Session
import YAML

/// Reads one agent.
struct AgentEntry {
    private let members: [YAMLValue.Member]
    private let isMapping: Bool
    private let path: String
    private let readFile: @Sendable (_ path: String) throws(WholeFileError) -> String
    /// Its name, or its place in the list, for errors.
    private let label: String

    /// - Parameters:
    ///   - number: its place in the list, from 1.
    ///   - path: of the file; files that it names are looked for in its folder.
    init(
        _ value: YAMLValue, number: Int, in path: String,
        _ readFile: @escaping @Sendable (_ path: String) throws(WholeFileError) -> String
    ) {
        members = value.members.filter { !$0.value.isNull }
        if case .map = value { isMapping = true } else { isMapping = false }
        self.path = path
        self.readFile = readFile
        label = value.members.first { $0.key == "name" }?.value.text ?? "agent \(number)"
    }

    /// The names that may stand in an agent.
    private static let fields = [
        "name", "instructions", "instructions-file", "model", "voice", "language",
        "turn-detection", "noise-reduction", "tools", "session", "greeting",
        "greeting-interruptible", "silence", "filler", "apology", "not-understood", "after-call",
        "numbers", "recording", "sessions", "max-session-seconds", "clients-may-change",
    ]

    /// The agent.
    func profile() throws(CommandFailure) -> AgentProfile {
        guard isMapping else { throw failure("must be a mapping with a name") }
        try checkNames(members, among: Self.fields, of: nil)
        guard let name = try text("name"), AgentProfile.isName(name) else {
            throw failure(
                "needs a name of at most \(AgentProfile.maxNameBytes) letters, digits, '.', '_' "
                    + "and '-'")
        }
        return AgentProfile(
            name: name, model: try text("model"), updates: try updates(), settings: try settings(),
            numbers: try texts("numbers"),
            recording: try choice("recording", RecordingRule.self),
            maxSessionSeconds: try integer(
                "max-session-seconds", SessionAllowance.secondsRange),
            maxSessions: try integer("sessions", SessionAllowance.sessionsRange))
    }

    // MARK: What the protocol's session has

    /// The events that a client would send: first `session`, and then the other fields.
    private func updates() throws(CommandFailure) -> [SessionUpdate] {
        var updates: [SessionUpdate] = []
        if let session = value("session") {
            guard case .map = session else { throw failure("session must be a mapping") }
            updates.append(try update("session") { $0.raw(session.json) })
        }
        let instructions = try instructions()
        let (voice, language) = (try text("voice"), try text("language"))
        let detection = try object("turn-detection")
        let noise = try object("noise-reduction")
        let tools = try tools()
        updates.append(
            try update(nil) { json in
                json.object { json in
                    json.member("type", "realtime")
                    if let instructions { json.member("instructions", instructions) }
                    if let tools { json.member("tools", tools) }
                    json.object("audio") { json in
                        json.object("input") { json in
                            if let language {
                                json.object("transcription") { $0.member("language", language) }
                            }
                            if let detection { json.member("turn_detection", detection) }
                            if let noise { json.member("noise_reduction", noise) }
                        }
                        json.object("output") { json in
                            if let voice { json.member("voice", voice) }
                        }
                    }
                }
            })
        return updates
    }

    private func update(
        _ field: String?, _ write: (inout JSONWriter) -> Void
    ) throws(CommandFailure) -> SessionUpdate {
        var json = JSONWriter(ByteWriter(capacity: 1_024))
        json.beginObject()
        json.member("type", "session.update")
        json.key("session")
        write(&json)
        json.endObject()
        var parser = ClientEventParser()
        let bytes = json.finish().copiedBytes
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(ClientEventError) in try parser.parse(bytes).event }
        }
        switch result {
        case .success(.sessionUpdate(let update)): return update
        case .success: throw failure("is no session")
        case .failure(let error):
            throw failure("\(error.param ?? field ?? "session"): \(error.message)")
        }
    }

    private func instructions() throws(CommandFailure) -> String? {
        guard let file = try text("instructions-file") else { return try text("instructions") }
        guard value("instructions") == nil else {
            throw failure("has both instructions and instructions-file")
        }
        let folder = path.lastIndex(of: "/").map { path[...$0] } ?? ""
        do throws(WholeFileError) {
            return try readFile(file.hasPrefix("/") ? file : folder + file)
        } catch {
            throw failure("instructions-file: \(error.problem(of: jsonString(file)))")
        }
    }

    /// A field that is an object in the protocol: its `type` alone, the object itself, or `none`.
    private func object(_ name: String) throws(CommandFailure) -> RawJSON? {
        guard let value = value(name) else { return nil }
        if case .map = value { return value.json }
        guard let type = value.text else { throw failure("\(name) must be a word or a mapping") }
        return RawJSON(type == "none" ? "null" : #"{"type":\#(jsonString(type))}"#)
    }

    /// The tools: labels of MCP servers, each alone or with the tools that are allowed, and objects of
    /// the protocol. No person is there to approve a call.
    private func tools() throws(CommandFailure) -> RawJSON? {
        guard let value = value("tools") else { return nil }
        guard let items = value.items else { throw failure("tools must be a list") }
        var texts: [String] = []
        for item in items {
            if item["type"] != nil {
                texts.append(item.json.text)
                continue
            }
            guard let label = item.text ?? item["server"]?.text else {
                throw failure("a tool is the label of an MCP server, or has a server or a type")
            }
            try checkNames(item.members, among: ["server", "allowed"], of: "tools")
            let allowed = item["allowed"].map { #","allowed_tools":\#($0.json.text)"# } ?? ""
            texts.append(
                #"{"type":"mcp","server_label":\#(jsonString(label)),"require_approval":"never"\#(allowed)}"#
            )
        }
        return RawJSON("[" + texts.joined(separator: ",") + "]")
    }

    // MARK: What the server says itself

    private func settings() throws(CommandFailure) -> SessionAgent.Settings {
        var settings = SessionAgent.Settings()
        settings.greeting = try phrase("greeting", members) ?? .none
        settings.isGreetingInterruptible = try bool("greeting-interruptible") ?? true
        settings.apology = try phrase("apology", members)
        settings.notUnderstood = try phrase("not-understood", members)
        if let rule = try mapping("silence", of: ["after-ms", "say", "times", "farewell"]) {
            var silence = SessionAgent.Silence()
            silence.after =
                try integer("after-ms", SessionAgent.Silence.range, rule).map {
                    .milliseconds($0)
                } ?? silence.after
            silence.prompt = try phrase("say", rule) ?? .none
            silence.prompts = try integer("times", 1...100, rule) ?? silence.prompts
            silence.farewell = try phrase("farewell", rule) ?? .none
            settings.silence = silence
        }
        if let rule = try mapping("filler", of: ["after-ms", "say"]) {
            var filler = SessionAgent.Filler()
            filler.after =
                try integer("after-ms", SessionAgent.Filler.range, rule).map { .milliseconds($0) }
                ?? filler.after
            guard let phrase = try phrase("say", rule) else { throw failure("filler needs say") }
            filler.phrase = phrase
            settings.filler = filler
        }
        settings.afterCall = try afterCall()
        if value("clients-may-change") != nil {
            let words = try texts("clients-may-change")
            let fields = words.compactMap(ClientField.init(rawValue:))
            guard fields.count == words.count else {
                let all = ClientField.allCases.map(\.rawValue).joined(separator: ", ")
                throw failure("clients-may-change takes \(all)")
            }
            settings.clientFields = Set(fields)
        }
        return settings
    }

    private func afterCall() throws(CommandFailure) -> AfterCall? {
        guard let rule = try mapping("after-call", of: ["instructions", "schema", "model"]) else {
            return nil
        }
        guard let instructions = try text("instructions", rule) else {
            throw failure("after-call needs instructions")
        }
        let schema = value("schema", rule)
        if let schema {
            guard case .map = schema, schema["type"]?.text == "object" else {
                throw failure("after-call: schema must be a JSON schema of type object")
            }
        }
        return AfterCall(
            instructions: instructions, schema: schema?.json, model: try text("model", rule))
    }

    // MARK: Values

    private func value(_ name: String) -> YAMLValue? { value(name, members) }

    private func value(_ name: String, _ members: [YAMLValue.Member]) -> YAMLValue? {
        members.first { $0.key == name && !$0.value.isNull }?.value
    }

    private func text(
        _ name: String, _ members: [YAMLValue.Member]? = nil
    ) throws(CommandFailure) -> String? {
        guard let value = value(name, members ?? self.members) else { return nil }
        guard let text = value.text, !text.isEmpty else { throw failure("\(name) must be a text") }
        return text
    }

    private func texts(_ name: String) throws(CommandFailure) -> [String] {
        guard let value = value(name) else { return [] }
        let items = value.items ?? [value]
        let texts = items.compactMap(\.text)
        guard texts.count == items.count else { throw failure("\(name) must be a list of texts") }
        return texts
    }

    private func phrase(
        _ name: String, _ members: [YAMLValue.Member]
    ) throws(CommandFailure) -> Phrase? {
        guard let value = value(name, members) else { return nil }
        guard let phrase = value.text.flatMap({ Phrase($0) }) else {
            throw failure("\(name) must be a text of at most \(Phrase.maxBytes) bytes")
        }
        return phrase
    }

    private func integer(
        _ name: String, _ range: ClosedRange<Int>, _ members: [YAMLValue.Member]? = nil
    ) throws(CommandFailure) -> Int? {
        guard let value = value(name, members ?? self.members) else { return nil }
        guard let number = value.text.flatMap({ Int($0) }), range.contains(number) else {
            throw failure("\(name) must be from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    private func bool(_ name: String) throws(CommandFailure) -> Bool? {
        guard let value = value(name) else { return nil }
        guard let flag = value.text.flatMap({ Bool($0) }) else {
            throw failure("\(name) must be true or false")
        }
        return flag
    }

    private func choice<Word: RawRepresentable & CaseIterable>(
        _ name: String, _: Word.Type
    ) throws(CommandFailure) -> Word? where Word.RawValue == String {
        guard let value = value(name) else { return nil }
        guard let word = value.text.flatMap({ Word(rawValue: $0) }) else {
            let all = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw failure("\(name) must be one of \(all)")
        }
        return word
    }

    private func mapping(
        _ name: String, of fields: [String]
    ) throws(CommandFailure) -> [YAMLValue.Member]? {
        guard let value = value(name) else { return nil }
        guard case .map(let members) = value else { throw failure("\(name) must be a mapping") }
        try checkNames(members, among: fields, of: name)
        return members
    }

    // MARK: Errors

    private func checkNames(
        _ members: [YAMLValue.Member], among names: [String], of parent: String?
    ) throws(CommandFailure) {
        guard let member = members.first(where: { !names.contains($0.key) }) else { return }
        let near = nearestName(to: member.key, among: names).map { "; did you mean \($0)?" }
        let place = parent.map { "\($0): " } ?? ""
        throw failure(
            "\(place)unknown name \(shortened(member.key)) in line \(member.line)"
                + (near ?? "; it must be one of " + names.joined(separator: ", ")))
    }

    private func failure(_ problem: String) -> CommandFailure {
        .usage("agents: \(path): \(shortened(label, quoted: false)): \(problem)")
    }
}

extension YAMLValue {
    /// The value as JSON: plain scalars that are numbers, truth values or null are these, all others
    /// texts.
    var json: RawJSON {
        switch self {
        case .scalar(let text, let isPlain):
            if isNull { return RawJSON("null") }
            let isWord = text == "true" || text == "false"
            return RawJSON(isPlain && (isWord || Self.isNumber(text)) ? text : jsonString(text))
        case .list(let items):
            return RawJSON("[" + items.map(\.json.text).joined(separator: ",") + "]")
        case .map(let members):
            let texts = members.map { jsonString($0.key) + ":" + $0.value.json.text }
            return RawJSON("{" + texts.joined(separator: ",") + "}")
        }
    }

    /// Whether a text is a number of JSON (RFC 8259 §6).
    private static func isNumber(_ text: String) -> Bool {
        text.contains { ("0"..."9").contains($0) }
            && (try? JSONParser().parse("[\(text)]"))?.count == 1
    }
}
