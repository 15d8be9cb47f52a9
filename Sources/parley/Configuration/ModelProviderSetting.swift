// One provider of language models as an operator writes it, and the checks on all of them together.
// Agents' ModelRouter chooses between providers while the server runs.

import Agents
import Codec
import Session

/// One provider: `name=value` fields with blanks between.
struct ModelProviderSetting: Equatable, Sendable, LosslessStringConvertible {
    /// The name in metrics, logs and fallbacks: letters, digits, `.`, `_` and `-`.
    var name = ""
    /// The models that it answers for; none where it is only a fallback.
    var models: [ModelNamePattern] = []
    /// Its protocol.
    var kind = ModelServiceKind.chat
    /// Base URL, up to and including the version.
    var url = ""
    /// The environment variable that holds its key, or nil where no key is sent.
    var keyVariable: String?
    /// The model to ask it for. The default is the one that the client names.
    var model: String?
    /// The parameter that limits an answer's tokens.
    var tokenLimit = TokenLimitParameter.learnt
    /// Whether its requests ask for the count of tokens.
    var streamOptions = StreamOptionsUse.learnt
    /// Whether its answers begin within a thought.
    var thinksFirst = false
    /// Whether its model is given images.
    var seesImages = false
    /// Whether its model is given what users say as audio, where its protocol can carry it.
    var hearsAudio = false
    /// Whether its requests name the caller and the turn in their bodies.
    var namesUser = false
    /// Whether it keeps the conversation, so that requests go on from its earlier answers.
    var keepsState = false
    /// Requests at a time; 0: no limit.
    var concurrency = 0
    /// Requests that may wait where there is a limit.
    var maxWaiting = RequestQueue.defaultMaxWaiting
    /// Its name in signatures. The default is its base URL.
    var audience: String?
    /// The stream of its jobs, and their limits, where it is workers of a Redis stream.
    var jobs = JobQueue()
    /// The provider that takes over where it fails before its first word.
    var fallback: String?
    /// Tokens of one answer where the session sets no limit. The default is `llm-max-tokens`.
    var maxTokens: Int?

    /// Creates a provider of chat completions.
    init(name: String, url: String) {
        self.name = name
        self.url = url
    }

    /// Reads a provider; nil where a field is unknown, given twice, missing or not allowed.
    init?(_ description: String) {
        var seen: Set<Substring> = []
        for field in description.split(separator: " ") {
            let halves = field.split(separator: "=", maxSplits: 1)
            guard halves.count == 2, seen.insert(halves[0]).inserted,
                set(halves[0], String(halves[1]))
            else { return nil }
        }
        guard !name.isEmpty, !url.isEmpty, kind.takesAudio || !hearsAudio,
            kind.keepsState || !keepsState, kind.isAddress(url),
            kind.usesRedis || jobs == JobQueue()
        else { return nil }
    }

    private mutating func set(_ field: Substring, _ value: String) -> Bool {
        switch field {
        case "name": name = Self.isName(value) ? value : ""
        case "models":
            let texts = value.split(separator: "|", omittingEmptySubsequences: false)
            models = texts.compactMap { ModelNamePattern(String($0)) }
            return models.count == texts.count
        case "url": url = value
        case "key-env": keyVariable = value
        case "model": model = value
        case "concurrency":
            return Self.read(value, LanguageModelSettings.concurrencies, into: &concurrency)
        case "queue": return Self.read(value, LanguageModelSettings.queues, into: &maxWaiting)
        case "audience": audience = value
        case "stream":
            jobs.stream = value
            return JobQueue.isName(value)
        case "group":
            jobs.group = value
            return JobQueue.isName(value)
        case "lease-ms": return Self.read(value, 1_000...600_000, into: &jobs.lease)
        case "pickup-ms": return Self.read(value, 100...600_000, into: &jobs.pickup)
        case "attempts": return Self.read(value, 1...100, into: &jobs.attempts)
        case "max-jobs": return Self.read(value, 1...1_000_000, into: &jobs.maxJobs)
        case "fallback": fallback = value
        case "max-tokens":
            guard let tokens = Int(value), tokens > 0 else { return false }
            maxTokens = tokens
        default: return Self.choices.first { $0.name == field }?.set(value, &self) ?? false
        }
        return true
    }

    private static func read(
        _ value: String, _ range: ClosedRange<Int>, into number: inout Int
    ) -> Bool {
        guard let read = Int(value), range.contains(read) else { return false }
        number = read
        return true
    }

    private static func read(
        _ value: String, _ range: ClosedRange<Int>, into duration: inout Duration
    ) -> Bool {
        var milliseconds = 0
        guard read(value, range, into: &milliseconds) else { return false }
        duration = .milliseconds(milliseconds)
        return true
    }

    /// Whether a text can stand in metrics without escapes.
    private static func isName(_ text: String) -> Bool {
        text.utf8.count <= 64
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._-".utf8.contains($0) }
    }

    /// The fields that differ from the default.
    var description: String {
        var fields = ["name=\(name)", "url=\(url)"]
        func add(_ field: String, _ value: String?) {
            if let value { fields.append("\(field)=\(value)") }
        }
        for choice in Self.choices { add(choice.name, choice.word(self)) }
        let patterns = models.map(\.description).joined(separator: "|")
        add("models", patterns.isEmpty ? nil : patterns)
        add("key-env", keyVariable)
        add("model", model)
        add("concurrency", concurrency == 0 ? nil : "\(concurrency)")
        add("queue", maxWaiting == RequestQueue.defaultMaxWaiting ? nil : "\(maxWaiting)")
        add("audience", audience)
        let usual = JobQueue()
        add("stream", jobs.stream == usual.stream ? nil : jobs.stream)
        add("group", jobs.group == usual.group ? nil : jobs.group)
        func add(_ field: String, _ time: Duration, unless usual: Duration) {
            add(field, time == usual ? nil : "\(time.wholeMilliseconds)")
        }
        add("lease-ms", jobs.lease, unless: usual.lease)
        add("pickup-ms", jobs.pickup, unless: usual.pickup)
        add("attempts", jobs.attempts == usual.attempts ? nil : "\(jobs.attempts)")
        add("max-jobs", jobs.maxJobs == usual.maxJobs ? nil : "\(jobs.maxJobs)")
        add("max-tokens", maxTokens.map(String.init))
        add("fallback", fallback)
        return fields.joined(separator: " ")
    }
}

extension ModelProviderSetting {
    /// A field that takes only some words.
    fileprivate struct Choice: Sendable {
        let name: String
        let words: [String]
        /// Sets the field; false where the word is none of them.
        let set: @Sendable (String, inout ModelProviderSetting) -> Bool
        /// The word that a provider has, or nil where that is the default.
        let word: @Sendable (ModelProviderSetting) -> String?

        init<Value: RawRepresentable<String> & CaseIterable & Equatable & Sendable>(
            _ name: String,
            _ place: any WritableKeyPath<ModelProviderSetting, Value> & Sendable
        ) {
            self.name = name
            words = Value.allCases.map(\.rawValue)
            set = { text, provider in
                guard let value = Value(rawValue: text) else { return false }
                provider[keyPath: place] = value
                return true
            }
            word = { provider in
                let usual = ModelProviderSetting(name: "", url: "")
                let value = provider[keyPath: place]
                return value == usual[keyPath: place] ? nil : value.rawValue
            }
        }

        /// One that is false by default.
        init(
            _ name: String, _ place: any WritableKeyPath<ModelProviderSetting, Bool> & Sendable
        ) {
            self.name = name
            words = ["true", "false"]
            set = { text, provider in
                guard let value = Bool(text) else { return false }
                provider[keyPath: place] = value
                return true
            }
            word = { $0[keyPath: place] ? "true" : nil }
        }
    }

    fileprivate static let choices = [
        Choice("kind", \.kind), Choice("token-limit", \.tokenLimit),
        Choice("stream-options", \.streamOptions), Choice("thinks-first", \.thinksFirst),
        Choice("vision", \.seesImages), Choice("audio", \.hearsAudio),
        Choice("send-user", \.namesUser), Choice("keep-state", \.keepsState),
    ]
}

extension ModelProviderSetting: ExplainedValue {
    static func problem(of text: String) -> String? {
        for field in text.split(separator: " ") {
            let halves = field.split(separator: "=", maxSplits: 1)
            guard halves.count == 2,
                let words = choices.first(where: { $0.name == halves[0] })?.words,
                !words.contains(String(halves[1]))
            else { continue }
            let list = words.joined(separator: ", ")
            return "\(halves[0]) \(shortened(String(halves[1]))) is not allowed; it must be one of "
                + list
        }
        return nil
    }
}

extension ModelServiceKind {
    /// Whether a service of this kind can have an address.
    func isAddress(_ url: String) -> Bool {
        usesRedis
            ? RedisAddress(url) != nil : url.hasPrefix("http://") || url.hasPrefix("https://")
    }
}

extension LanguageModelSettings {
    /// The fault of `llm-url` and `llm-kind` together; nil where there is none.
    var urlProblem: String? {
        guard let url, !kind.isAddress(url) else { return nil }
        return kind.usesRedis
            ? "llm-kind redis-stream wants a URL that begins with redis:// or rediss://"
            : "a URL of Redis wants llm-kind redis-stream"
    }

    /// The name of the provider that `llm-url` makes.
    static let standardProvider = "llm"

    /// The first error in the providers together, as one clause; nil where there is none.
    func providersProblem(_ environment: [String: String]) -> String? {
        let names = [Self.standardProvider] + providers.map(\.name)
        if let twice = names.first(where: { name in names.count { $0 == name } > 1 }) {
            return "the name \(twice) is given twice (\(Self.standardProvider) is that of llm-url)"
        }
        for provider in providers {
            guard let variable = provider.keyVariable else { continue }
            let place = "the environment variable \(variable) of \(provider.name)"
            guard let text = environment[variable] else { return "\(place) is not set" }
            guard let key = SettingText.read(text) else {
                return "\(place) has a control character, such as a line break, within its value"
            }
            if key.isEmpty { return "\(place) is empty" }
        }
        let known = url == nil ? names.dropFirst() : names[...]
        for fallback in providers.map(\.fallback) + [self.fallback] {
            if let fallback, !known.contains(fallback) {
                return "the fallback \(fallback) is no provider"
            }
        }
        return nil
    }
}
