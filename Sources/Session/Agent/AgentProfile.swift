// Agents by their names: the operator's settings of each, and which agent belongs to a name, a
// called number, or neither.

import Codec

/// One agent.
public struct AgentProfile: Sendable {
    /// Its name: letters, digits, `.`, `_` and `-`.
    public var name: String
    /// The model of its sessions. The default is the one that the client names.
    public var model: String?
    /// The other parameters of its sessions, as updates in order.
    public var updates: [SessionUpdate]
    /// Its settings that are no parameters of the session.
    public var agent: SessionAgent
    /// Telephone numbers whose calls it answers, as carriers write them (E.164: `+493012345`).
    public var numbers: [String]
    /// Which of its sessions are recorded. Nil means that the key or the server decides.
    public var recording: RecordingRule?
    /// The longest of its sessions, in seconds, within `SessionAllowance.secondsRange`. Where nil,
    /// only the key's limit applies.
    public var maxSessionSeconds: Int?
    /// How many sessions it may have at one time, of all callers together, within
    /// `SessionAllowance.sessionsRange`. Where nil, only the server's limit and the key's apply.
    public var maxSessions: Int?

    /// Creates an agent.
    public init(
        name: String, model: String? = nil, updates: [SessionUpdate] = [],
        settings: SessionAgent.Settings = SessionAgent.Settings(), numbers: [String] = [],
        recording: RecordingRule? = nil, maxSessionSeconds: Int? = nil,
        maxSessions: Int? = nil
    ) {
        self.name = name
        self.model = model
        self.updates = updates
        agent = SessionAgent(name: name, settings)
        self.numbers = numbers
        self.recording = recording
        self.maxSessionSeconds = maxSessionSeconds
        self.maxSessions = maxSessions
    }

    /// Bytes of the longest name.
    public static let maxNameBytes = 64

    /// Whether a text can be a name. It stands in URLs, in files of keys and in metadata.
    public static func isName(_ text: some StringProtocol) -> Bool {
        (1...maxNameBytes).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._-".utf8.contains($0) }
    }
}

/// All agents of a server.
public struct AgentProfiles: Sendable {
    /// Agents of a server. 1,000: a hosted product has one for each of its customers' lines.
    public static let maxProfiles = 1_000

    /// The name of the agent of sessions that name none. Where nil, they have none.
    public let standard: String?
    private let byName: [String: AgentProfile]
    private let byNumber: [String: String]

    /// Creates a set. If several agents have one name, or one number, the last counts.
    public init(_ profiles: [AgentProfile] = [], standard: String? = nil) {
        self.standard = standard
        byName = Dictionary(profiles.map { ($0.name, $0) }) { $1 }
        let numbers = profiles.flatMap { profile in
            profile.numbers.map { (Self.digits(of: $0), profile.name) }
        }
        byNumber = Dictionary(numbers) { $1 }
    }

    /// Whether there is no agent.
    public var isEmpty: Bool { byName.isEmpty }

    /// The names, in their order.
    public var names: [String] { byName.keys.sorted() }

    /// The agent with a name.
    public subscript(name: String) -> AgentProfile? { byName[name] }

    /// The name of the agent that answers calls of a number, however a carrier writes it.
    public func name(answering number: String) -> String? {
        byNumber.isEmpty ? nil : byNumber[Self.digits(of: number)]
    }

    /// The digits of a number, without blanks, marks and the zeros of an international prefix.
    private static func digits(of number: String) -> String {
        let digits = number.filter { ("0"..."9").contains($0) }
        return digits.hasPrefix("00") ? String(digits.dropFirst(2)) : digits
    }
}
