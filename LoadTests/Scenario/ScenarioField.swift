// The fields of a scenario as they are written in a file or behind --set: names, units, ranges.
// Reading, checking and the help all use this table.

/// A field of a scenario.
struct ScenarioField {
    /// The property that it sets, and the allowed values.
    enum Storage {
        /// A whole number.
        case count(WritableKeyPath<Scenario, Int>, ClosedRange<Int>)
        /// A number and `ms`, `s` or `min`; kept in seconds, as the range is.
        case duration(WritableKeyPath<Scenario, Double>, ClosedRange<Double>)
        /// A number and `/s`.
        case rate(WritableKeyPath<Scenario, Double>, ClosedRange<Double>)
        /// A whole number and `B`, `KiB`.
        case bytes(WritableKeyPath<Scenario, Int>, ClosedRange<Int>)
        /// `true` or `false`.
        case flag(WritableKeyPath<Scenario, Bool>)
        /// Anything.
        case text(WritableKeyPath<Scenario, String>)
        /// A path that begins with a slash.
        case path(WritableKeyPath<Scenario, String?>)
        /// A seed.
        case seed(WritableKeyPath<Scenario, UInt64>)
    }

    /// The name in files.
    let name: String
    let storage: Storage
    /// A short explanation.
    let meaning: String

    /// All fields except `scenario`, which is the kind.
    static var all: [ScenarioField] {
        [
            ScenarioField(
                name: "name", storage: .text(\.name), meaning: "what reports call it"),
            ScenarioField(
                name: "sessions", storage: .count(\.sessions, 1...1_000_000),
                meaning: "sessions in all"),
            ScenarioField(
                name: "connect-rate", storage: .rate(\.connectRate, 0.1...1_000_000),
                meaning: "how fast they are opened"),
            ScenarioField(
                name: "duration", storage: .duration(\.seconds, 0.1...86_400),
                meaning: "the measured part, once all are open"),
            ScenarioField(
                name: "settle", storage: .duration(\.settleSeconds, 0...600),
                meaning: "rest before memory is measured"),
            ScenarioField(
                name: "warm-up", storage: .flag(\.warmUp),
                meaning: "whether 64 sessions come and go before memory is measured"),
            ScenarioField(
                name: "chatting", storage: .count(\.chatting, 0...1_000_000),
                meaning: "how many of them chat (chat: 0 is all; mixed)"),
            ScenarioField(
                name: "speaking", storage: .count(\.speaking, 0...1_000_000),
                meaning: "how many of them speak (voice, barge-in: 0 is all; mixed)"),
            ScenarioField(
                name: "slow", storage: .count(\.slow, 0...1_000_000),
                meaning: "how many of them do not read (slow-readers)"),
            ScenarioField(
                name: "message-size", storage: .bytes(\.messageBytes, 8...1_048_576),
                meaning: "of an echo (echo, slow-readers)"),
            ScenarioField(
                name: "message-rate", storage: .rate(\.messageRate, 0.001...1_000),
                meaning: "messages of each session (echo, slow-readers)"),
            ScenarioField(
                name: "tokens", storage: .count(\.tokens, 1...1_000_000),
                meaning: "the model's deltas per answer (chat, mixed)"),
            ScenarioField(
                name: "token-rate", storage: .rate(\.tokenRate, 0.01...100_000),
                meaning: "how fast they come (chat, mixed)"),
            ScenarioField(
                name: "first-token", storage: .duration(\.firstToken, 0...600),
                meaning: "time to the first (chat, mixed)"),
            ScenarioField(
                name: "turn-every", storage: .duration(\.turnEvery, 0.01...86_400),
                meaning: "from a session's turn to its next (chat, mixed)"),
            ScenarioField(
                name: "ramp", storage: .duration(\.ramp, 0...3_600),
                meaning: "first turns begin over it, last past the end, and are measured after it"),
            ScenarioField(
                name: "replies", storage: .flag(\.replies),
                meaning: "whether speech is answered (voice, mixed)"),
            ScenarioField(
                name: "pause", storage: .duration(\.pause, 0.1...600),
                meaning: "silence after each run of the recording (voice, mixed)"),
            ScenarioField(
                name: "interrupt-after", storage: .duration(\.interruptAfter, 0.02...60),
                meaning: "how much of a reply is heard (barge-in)"),
            ScenarioField(
                name: "lifetime", storage: .duration(\.lifetime, 0.1...86_400),
                meaning: "how long a session stays, on average (churn)"),
            ScenarioField(
                name: "jitter", storage: .duration(\.jitter, 0.001...600),
                meaning: "the time over which they come back (reconnect)"),
            ScenarioField(
                name: "resume", storage: .flag(\.resume),
                meaning: "whether sessions can be resumed, and are (reconnect)"),
            ScenarioField(
                name: "path", storage: .path(\.path),
                meaning: "asked for where the target's URL has none"),
            ScenarioField(
                name: "seed", storage: .seed(\.seed), meaning: "of everything random"),
        ]
    }

    /// Reads a value.
    /// - Throws: `LoadFailure` that names the allowed values.
    func set(_ text: String, in scenario: inout Scenario) throws(LoadFailure) {
        switch storage {
        case .count(let path, let range):
            scenario[keyPath: path] = try whole(text, in: range, unit: "")
        case .duration(let path, let range):
            scenario[keyPath: path] = try scaled(
                text, [("ms", 0.001), ("min", 60), ("s", 1)], range, "ms, s or min, as \"30 s\"")
        case .rate(let path, let range):
            scenario[keyPath: path] = try scaled(text, [("/s", 1)], range, "/s, as \"50 /s\"")
        case .bytes(let path, let range):
            let value = try scaled(
                text, [("KiB", 1_024), ("B", 1)],
                Double(range.lowerBound)...Double(range.upperBound), "B or KiB, as \"160 B\"")
            scenario[keyPath: path] = Int(value)
        case .flag(let path):
            guard let value = Bool(text) else { throw problem(text, "is true or false") }
            scenario[keyPath: path] = value
        case .text(let path): scenario[keyPath: path] = text
        case .path(let path):
            guard text.hasPrefix("/") else { throw problem(text, "begins with a slash") }
            scenario[keyPath: path] = text
        case .seed(let path):
            guard let value = UInt64(text) else { throw problem(text, "is a whole number") }
            scenario[keyPath: path] = value
        }
    }

    /// The allowed values, for the help.
    var domain: String {
        switch storage {
        case .count(_, let range): "\(grouped(range.lowerBound)) … \(grouped(range.upperBound))"
        case .duration(_, let range):
            "\(Self.short(range.lowerBound)) … \(Self.short(range.upperBound)) s"
        case .rate(_, let range):
            "\(Self.short(range.lowerBound)) … \(Self.short(range.upperBound)) /s"
        case .bytes(_, let range): "\(range.lowerBound) … \(grouped(range.upperBound)) B"
        case .flag: "true, false"
        case .text: "text"
        case .path: "/path"
        case .seed: "whole number"
        }
    }

    /// Its value in the form of a file.
    func written(in scenario: Scenario) -> String {
        switch storage {
        case .count(let path, _): "\(scenario[keyPath: path])"
        case .duration(let path, _): Self.short(scenario[keyPath: path]) + " s"
        case .rate(let path, _): Self.short(scenario[keyPath: path]) + " /s"
        case .bytes(let path, _): "\(scenario[keyPath: path]) B"
        case .flag(let path): "\(scenario[keyPath: path])"
        case .text(let path): scenario[keyPath: path]
        case .path(let path): scenario[keyPath: path] ?? "–"
        case .seed(let path): "\(scenario[keyPath: path])"
        }
    }

    /// A number without trailing zeros.
    static func short(_ value: Double) -> String {
        value == value.rounded() && value.magnitude < 1e15
            ? grouped(Int(value)) : "\(value)"
    }

    private func whole(
        _ text: String, in range: ClosedRange<Int>, unit: String
    ) throws(LoadFailure) -> Int {
        guard let value = Int(text) else { throw problem(text, "is a whole number") }
        guard range.contains(value) else { throw problem(text, "is out of range: \(domain)") }
        return value
    }

    private func scaled(
        _ text: String, _ units: [(String, Double)], _ range: ClosedRange<Double>,
        _ wanted: String
    ) throws(LoadFailure) -> Double {
        for (unit, scale) in units where text.hasSuffix(unit) {
            let number = text.dropLast(unit.count).filter { $0 != " " }
            guard let value = Double(number), value.isFinite else { continue }
            let scaled = value * scale
            guard range.contains(scaled) else { throw problem(text, "is out of range: \(domain)") }
            return scaled
        }
        throw problem(text, "needs a number and a unit: \(wanted)")
    }

    private func problem(_ text: String, _ rule: String) -> LoadFailure {
        LoadFailure("\(name): \"\(text)\" \(rule.hasPrefix("is out") ? rule : "– it " + rule)")
    }
}
