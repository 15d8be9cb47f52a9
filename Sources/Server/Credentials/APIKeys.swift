// The server's own keys: read from an option or a file, kept as hashes, found by a hash.
// Authenticator decides what the holder of a key may do.
//
// A file has one key per line, followed by the key's properties in any order:
//
//   sk-8f2c…  name=shop  max-sessions=20  max-session-seconds=1800  models=parley,gpt-5
//   sk-77aa…  name=trial  quotas=turns=20/minute,tokens=100000/day
//   sk-1b7e…  name=prometheus  operator
//
// Empty lines and lines that begin with # are ignored.
//
// Invariant: no key is kept, logged or quoted in an error as text. A presented key is compared with
// every key of the server, each in constant time, so that the time reveals nothing about any key.

import Codec

/// One key.
package struct APIKey: Sendable {
    /// Its hash.
    let digest: SHA256Digest
    /// The name that the operator gave it, for the log.
    var name: String?
    /// Whether it opens the operator's routes: metrics, administration.
    var isOperator = false
    /// Limits of its sessions.
    var allowance = SessionAllowance()
}

/// All keys.
package struct APIKeys: Sendable {
    /// Keys of a server. 4,096: a comparison takes 10 ns, so that all of them take no longer than a
    /// handshake.
    package static let maxKeys = 4_096
    /// Bytes below which a key can be guessed over the network. 16: 96 bits of base64.
    static let guessableBytes = 16

    private var keys: [APIKey] = []
    /// Where a key stands that can be guessed, one clause for each.
    private(set) var guessable: [String] = []

    /// Creates an empty set.
    package init() {}

    /// The number of keys.
    var count: Int { keys.count }

    /// Adds the keys of the option `api-key`, separated by commas. They are operator keys: setting
    /// the option takes access to the machine.
    /// - Throws: for a key that cannot be used, and where the text has no key, as in `,`. A server without
    ///   a key would start and refuse every client.
    package mutating func add(option text: String) throws(OptionError) {
        let before = count
        for key in text.split(separator: ",").map({ $0.filter { $0 != " " } }) where !key.isEmpty {
            var entry = APIKey(digest: SHA256Digest(of: key))
            entry.isOperator = true
            if let objection = objection(to: key) { throw OptionError("api-key", objection) }
            if let objection = append(entry) { throw OptionError("api-key", objection) }
            if key.utf8.count < Self.guessableBytes { guessable.append("api-key") }
        }
        if count == before { throw OptionError("api-key", "it has no key") }
    }

    /// Adds the keys of a file.
    /// - Throws: for a line that is no key, and where the file has none. A full disk may have cut the
    ///   file to nothing, and the next SIGHUP would lock out every client.
    package mutating func add(_ file: ConfiguredFile) throws(OptionError) {
        let before = count
        let lines = file.bytes.split(
            separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            guard let text = String(validating: line, as: UTF8.self) else {
                throw file.error("line \(index + 1): is not UTF-8 text")
            }
            let words = text.split { $0 == " " || $0 == "\t" || $0 == "\r" }
            guard let key = words.first, !key.hasPrefix("#") else { continue }
            var entry = APIKey(digest: SHA256Digest(of: String(key)))
            let problem =
                objection(to: String(key)) ?? read(words.dropFirst(), into: &entry)
                ?? append(entry)
            if let problem { throw file.error("line \(index + 1): \(problem)") }
            if key.utf8.count < Self.guessableBytes {
                guessable.append("\(file.path) line \(index + 1)")
            }
        }
        if count == before { throw file.error("has no key") }
    }

    private mutating func append(_ key: APIKey) -> String? {
        guard keys.count < Self.maxKeys else { return "there are more than \(Self.maxKeys) keys" }
        guard self.key(of: key.digest) == nil else { return "the key was given before" }
        keys.append(key)
        return nil
    }

    /// The key with this hash. Takes the same time for every key, and where there is none.
    /// - Parameter isSame: compares two hashes; tests count the calls.
    package func key(
        of digest: SHA256Digest,
        by isSame: (SHA256Digest, SHA256Digest) -> Bool = { $0.matches($1) }
    ) -> APIKey? {
        var found: APIKey?
        for key in keys where isSame(key.digest, digest) { found = key }
        return found
    }

    /// The hashes of those keys whose limits fulfil a condition, in the order in which they came.
    func digests(where isWanted: (SessionAllowance) -> Bool) -> [SHA256Digest] {
        keys.filter { isWanted($0.allowance) }.map(\.digest)
    }

    /// Whether a text can be sent in a header, as a key must be.
    private func objection(to key: String) -> String? {
        guard key.utf8.count <= RequestCredential.maxBytes,
            key.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { return "a key is visible ASCII without spaces" }
        return nil
    }

    /// - Returns: the error in the words behind a key, or nil. It never quotes them: a word in the
    ///   wrong place may be a key.
    private func read(_ words: ArraySlice<Substring>, into key: inout APIKey) -> String? {
        for word in words {
            if word == "operator" {
                key.isOperator = true
                continue
            }
            let halves = word.split(separator: "=", maxSplits: 1)
            guard halves.count == 2 else { return Self.wordRule }
            let value = String(halves[1])
            switch halves[0] {
            case "name": key.name = value
            case "max-sessions":
                guard let number = Int(value), SessionAllowance.sessionsRange.contains(number)
                else { return Self.wordRule }
                key.allowance.maxSessions = number
            case "max-session-seconds":
                guard let number = Int(value), SessionAllowance.secondsRange.contains(number)
                else { return Self.wordRule }
                key.allowance.maxSessionSeconds = number
            case "models":
                let models = value.split(separator: ",").map(String.init)
                guard models.count <= SessionAllowance.maxModels else { return Self.wordRule }
                key.allowance.models = models
            case "agents":
                let agents = value.split(separator: ",").map(String.init)
                guard (1...SessionAllowance.maxModels).contains(agents.count) else {
                    return Self.wordRule
                }
                key.allowance.agents = agents
            case "quotas":
                let texts = value.split(separator: ",").map(String.init)
                guard let quotas = [Quota](texts: texts) else { return Self.wordRule }
                key.allowance.quotas = quotas
            case "recording":
                guard let rule = RecordingRule(rawValue: value) else { return Self.wordRule }
                key.allowance.recording = rule
            default: return Self.wordRule
            }
        }
        return nil
    }

    private static let wordRule =
        "after the key stand only name=TEXT, max-sessions=1…, max-session-seconds=1…604800, "
        + "models=A,B, agents=A,B, quotas=turns=20/minute,…, recording=none|asked|all and operator"
}
