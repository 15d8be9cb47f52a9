// What a load run does, as a value: how many sessions, what they do, for how long. How it is done
// is ScenarioRun's; how a person writes one is ScenarioFile's, which also knows every field's
// range.

/// A load run's plan. Times are in seconds, rates per second, sizes in bytes.
struct Scenario: Codable, Equatable, Sendable {
    /// What the sessions do.
    enum Kind: String, CaseIterable, Codable, Sendable {
        /// They are open and say nothing.
        case idle
        /// They connect at a high rate; what counts is how long that takes.
        case storm
        /// They send binary messages on a fixed schedule, and get them back.
        case echo
        /// They take turns as text against a model.
        case chat
        /// They speak in real time, as Opus packets of 20 ms, and may be answered.
        case voice
        /// Some speak, some chat, the rest is idle.
        case mixed
        /// They interrupt every reply by speaking.
        case bargeIn = "barge-in"
        /// Some do not read what they are sent, the others echo.
        case slowReaders = "slow-readers"
        /// They come at a rate, stay for a while, and go.
        case churn
        /// All are cut off at once, and come back.
        case reconnect
    }

    var kind: Kind
    /// What reports call it.
    var name: String
    /// All of them, whatever they do.
    var sessions = 1_000
    /// How fast they are opened.
    var connectRate = 1_000.0
    /// The part that is measured, once all are open.
    var seconds = 10.0
    /// Rest before memory is measured.
    var settleSeconds = 1.5
    /// Whether some sessions come and go before memory is measured for the first time.
    var warmUp = true
    /// How many of the sessions chat, and speak. A kind of its own (`chat`, `voice`) has all of
    /// them do so where this is 0.
    var chatting = 0
    var speaking = 0
    /// How many do not read (`slowReaders`).
    var slow = 0
    /// Bytes and rate of a session's messages (`echo`, `slowReaders`).
    var messageBytes = 160
    var messageRate = 5.0
    /// Model's deltas per answer, their rate, and the time to the first (`chat`).
    var tokens = 50
    var tokenRate = 50.0
    var firstToken = 0.2
    /// From the beginning of a session's turn to that of its next (`chat`).
    var turnEvery = 5.0
    /// The time over which the first turns begin, when every turn lasts past the measured part:
    /// from then on all of them are in flight, and only then deltas and the server's processor time
    /// are measured (`chat`). 0: they begin over `turnEvery`, and all of the part is measured.
    var ramp = 0.0
    /// Whether speech is recognised and answered; otherwise it is decoded and listened to.
    var replies = true
    /// Silence after each run of the recording.
    var pause = 6.0
    /// How much of a reply is heard before it is interrupted.
    var interruptAfter = 0.5
    /// How long a session stays (`churn`); they come at `connectRate`.
    var lifetime = 2.0
    /// The time over which those who were cut off come back (`reconnect`).
    var jitter = 2.0
    /// Where the server is asked for a session; nil: /debug/echo for echoes, else /v1/realtime.
    var path: String?
    /// Of everything random: the same for the same seed.
    var seed: UInt64 = 1

    /// The plan of a kind, as it is without a file.
    init(_ kind: Kind) {
        self.kind = kind
        name = kind.rawValue
        switch kind {
        case .idle: sessions = 10_000
        case .storm: (sessions, connectRate, seconds) = (5_000, 2_500, 1)
        case .echo, .chat, .churn, .reconnect: break
        case .voice: (sessions, connectRate, seconds) = (100, 100, 20)
        case .mixed: (speaking, chatting, seconds) = (100, 100, 20)
        case .bargeIn: (sessions, connectRate, seconds, pause) = (20, 20, 30, 1)
        case .slowReaders: (sessions, slow) = (500, 50)
        }
        if kind == .churn { (sessions, connectRate) = (1_000, 500) }
    }

    /// From the beginning of the measured part until deltas of all turns come; 0 without a ramp.
    var rampSeconds: Double { ramp > 0 ? ramp + firstToken : 0 }

    /// Whether sessions are echoes, of which the server knows no session.
    var isEcho: Bool { kind == .echo || kind == .slowReaders }

    /// The path asked for where the target's URL has none.
    var standardPath: String { path ?? (isEcho ? "/debug/echo" : "/v1/realtime?model=scripted") }

    /// Sessions that chat and speak, and those that do not read.
    var roles: Roles {
        switch kind {
        case .idle, .storm, .churn, .reconnect: Roles(slow: 0, speaking: 0, chatting: 0)
        case .echo: Roles(slow: 0, speaking: 0, chatting: 0)
        case .slowReaders: Roles(slow: slow, speaking: 0, chatting: 0)
        case .chat:
            Roles(slow: 0, speaking: 0, chatting: chatting == 0 ? sessions : chatting)
        case .voice, .bargeIn:
            Roles(slow: 0, speaking: speaking == 0 ? sessions : speaking, chatting: 0)
        case .mixed: Roles(slow: 0, speaking: speaking, chatting: chatting)
        }
    }

    /// The same with a few sessions for a moment.
    var warmingUp: Scenario {
        var small = self
        let all = roles
        small.sessions = min(sessions, 64)
        small.connectRate = 500
        (small.chatting, small.speaking) = (min(all.chatting, 16), min(all.speaking, 16))
        // Servers are not to be full of what is never read.
        if kind == .slowReaders { small.kind = .echo }
        (small.tokens, small.tokenRate, small.firstToken, small.turnEvery) = (10, 100, 0.05, 1)
        small.ramp = 0
        small.seconds = all.speaking > 0 ? 3 : 1.5
        return small
    }

    /// How many sessions do what; the rest is idle, or echoes.
    struct Roles: Equatable, Sendable {
        var slow: Int
        var speaking: Int
        var chatting: Int
    }

    /// What the last message of the user asks the scripted model for.
    var chatPrompt: String {
        "tokens=\(tokens) rate=\(tokenRate) first=\(firstToken * 1_000)"
    }
}

/// What is put under load: where it is, and which processes it is.
struct Target: Codable, Equatable, Sendable {
    /// Its name in reports, as `Parley` or `Node 24, ws`.
    var name: String
    /// `ws://` or `wss://` URLs. Several, when one server is several processes: sessions are
    /// handed out over them in turns.
    var urls: [String]
    /// The processes whose memory and processor time are its own. Empty: these are not measured.
    var processes: [Int32]
    /// Whether it is a Parley server, whose /metrics are read.
    var hasMetrics = false

    /// A target of one process.
    init(name: String, url: String, processes: [Int32] = [], hasMetrics: Bool = false) {
        self.init(name: name, urls: [url], processes: processes, hasMetrics: hasMetrics)
    }

    /// A target of several processes.
    /// - Precondition: there is a URL.
    init(name: String, urls: [String], processes: [Int32], hasMetrics: Bool = false) {
        precondition(!urls.isEmpty)
        self.name = name
        self.urls = urls
        self.processes = processes
        self.hasMetrics = hasMetrics
    }
}
