// Scenario files: YAML (or JSON, which is YAML as well) with `scenario: KIND` and any of the fields
// of ScenarioField. Every error names the file, the line, and the allowed values.

import Foundation
import YAML

/// Reads scenarios.
enum ScenarioFile {
    /// The folder of the provided scenarios.
    static let folder = "LoadTests/scenarios"

    /// The scenario that the command line names: a kind, a file, or a file's name in `folder`.
    /// - Throws: `LoadFailure` when there is none, or it is invalid.
    static func scenario(_ word: String) throws(LoadFailure) -> Scenario {
        if let kind = Scenario.Kind(rawValue: word) { return Scenario(kind) }
        for path in [word, "\(folder)/\(word).yaml"] {
            guard FileManager.default.fileExists(atPath: path) else { continue }
            return try parse(String(decoding: readWholeFile(path), as: UTF8.self), file: path)
        }
        let kinds = Scenario.Kind.allCases.map(\.rawValue).joined(separator: ", ")
        throw LoadFailure("\"\(word)\" is neither a file nor one of \(kinds)")
    }

    /// Reads a file's text.
    /// - Throws: `LoadFailure` with the line and its fault.
    static func parse(_ text: String, file: String) throws(LoadFailure) -> Scenario {
        let root: YAMLValue?
        do throws(YAMLError) { root = try YAMLValue.document(in: text) } catch {
            let place = error.line.map { "\(file):\($0)" } ?? file
            throw LoadFailure("\(place): \(error.problem)")
        }
        guard case .map(let members)? = root else {
            throw LoadFailure("\(file): the file must hold fields, as \"scenario: chat\"")
        }
        var scenario = try kind(in: members, file: file)
        let fields = ScenarioField.all
        for member in members where member.key != "scenario" {
            let (name, line) = (member.key, "\(file):\(member.line)")
            guard let field = fields.first(where: { $0.name == name }) else {
                throw unknown(name, among: fields.map(\.name) + ["scenario"], line)
            }
            guard let text = member.value.text else {
                throw LoadFailure("\(line): \(name) takes a single value")
            }
            do throws(LoadFailure) { try field.set(text, in: &scenario) } catch {
                throw LoadFailure("\(line): \(error.reason)")
            }
        }
        do throws(LoadFailure) { try check(scenario) } catch {
            throw LoadFailure("\(file): \(error.reason)")
        }
        return scenario
    }

    private static func kind(
        in members: [YAMLValue.Member], file: String
    ) throws(LoadFailure) -> Scenario {
        let kinds = Scenario.Kind.allCases.map(\.rawValue)
        guard let member = members.first(where: { $0.key == "scenario" }),
            let word = member.value.text
        else {
            throw LoadFailure(
                "\(file): \"scenario\" is missing; it is one of \(kinds.joined(separator: ", "))")
        }
        guard let kind = Scenario.Kind(rawValue: word) else {
            throw unknown(word, among: kinds, "\(file):\(member.line)", what: "scenario")
        }
        return Scenario(kind)
    }

    /// Sets a field, given as `name=value`.
    /// - Throws: `LoadFailure` when there is no such field, or the value is invalid.
    static func apply(_ setting: String, to scenario: inout Scenario) throws(LoadFailure) {
        guard let equals = setting.firstIndex(of: "=") else {
            throw LoadFailure("--set takes NAME=VALUE, not \"\(setting)\"")
        }
        let name = String(setting[..<equals])
        let fields = ScenarioField.all
        guard let field = fields.first(where: { $0.name == name }) else {
            throw unknown(name, among: fields.map(\.name), "--set")
        }
        try field.set(String(setting[setting.index(after: equals)...]), in: &scenario)
    }

    /// Checks the rules that concern several fields.
    static func check(_ scenario: Scenario) throws(LoadFailure) {
        let roles = scenario.roles
        let busy = roles.slow + roles.speaking + roles.chatting
        guard busy <= scenario.sessions else {
            throw LoadFailure(
                "sessions is \(scenario.sessions), but \(busy) of them speak, chat or do not read")
        }
        guard scenario.kind != .slowReaders || roles.slow > 0 else {
            throw LoadFailure("slow-readers needs slow, how many of the sessions do not read")
        }
        guard scenario.kind != .mixed || busy > 0 else {
            throw LoadFailure("mixed needs chatting or speaking")
        }
        guard scenario.ramp > 0 else { return }
        let turn = scenario.firstToken + Double(scenario.tokens) / scenario.tokenRate
        guard scenario.rampSeconds < scenario.seconds, turn >= scenario.seconds,
            scenario.turnEvery >= scenario.seconds
        else {
            throw LoadFailure(
                "with a ramp, duration is longer than ramp and first-token together, and a turn "
                    + "(tokens, token-rate) and turn-every are as long as duration")
        }
    }

    private static func unknown(
        _ name: String, among known: [String], _ place: String, what: String = "field"
    ) -> LoadFailure {
        let nearest = known.min { editDistance(name, $0) < editDistance(name, $1) }
        let isNear = nearest.map { editDistance(name, $0) <= max(2, name.count / 3) } ?? false
        let hint = isNear ? "; did you mean \"\(nearest ?? "")\"?" : ""
        return LoadFailure("\(place): there is no \(what) \"\(name)\"\(hint)")
    }

    /// The number of letters to insert, remove or change (Levenshtein distance).
    static func editDistance(_ first: String, _ second: String) -> Int {
        let second = Array(second)
        var row = Array(0...second.count)
        for (line, letter) in first.enumerated() {
            var diagonal = row[0]
            row[0] = line + 1
            for (column, other) in second.enumerated() {
                let above = row[column + 1]
                row[column + 1] = min(
                    above + 1, row[column] + 1, diagonal + (letter == other ? 0 : 1))
                diagonal = above
            }
        }
        return row[second.count]
    }
}
