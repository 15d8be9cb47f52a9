// The plan of a load run, as a value: the number of sessions, what they do, and for how long.
// ScenarioRun carries it out. ScenarioFile reads it from a file, and ScenarioField has every
// field's range.

/// A load run's plan. Times are in seconds, rates per second, sizes in bytes.
struct Scenario: Codable, Equatable, Sendable {
    /// The kinds of load that sessions make.
    enum Kind: String, CaseIterable, Codable, Sendable {
        /// They are open and silent.
        case idle
        /// They connect at a high rate; the time to open a session is measured.
        case storm
        /// They send binary messages on a fixed schedule, and receive them back.
        case echo
        /// They take turns as text against a model.
        case chat
        /// They speak in real time, in Opus packets of 20 ms, and may get replies.
        case voice
        /// Some speak, some chat, the others are idle.
        case mixed
        /// They interrupt every reply by speaking.
        case bargeIn = "barge-in"
        /// Some do not read from their connection, the others echo.
        case slowReaders = "slow-readers"
        /// They open at a rate, stay for a while, and close.
        case churn
        /// All connections are cut at once, and are opened again.
        case reconnect
    }

    var kind: Kind
    /// Its name in reports.
    var name: String
    /// The number of all sessions.
    var sessions = 1_000
    /// Sessions opened per second.
    var connectRate = 1_000.0
    /// Length of the measured part, which begins once all sessions are open.
    var seconds = 10.0
    /// Pause before memory is measured.
    var settleSeconds = 1.5
    /// Whether memory is also measured after all sessions are closed, a second after the pause.
    var measuresAfter = true
    /// Whether some sessions are opened and closed before memory is measured for the first time.
    var warmUp = true
    /// How many of the sessions chat, and how many speak. 0 means all of them in the kinds `chat`,
    /// and `voice` and `bargeIn`.
    var chatting = 0
    var speaking = 0
    /// How many sessions do not read (`slowReaders`).
    var slow = 0
    /// Bytes and rate of a session's messages (`echo`, `slowReaders`).
    var messageBytes = 160
    var messageRate = 5.0
    /// The model's deltas per answer, their rate, and the time to the first (`chat`).
    var tokens = 50
    var tokenRate = 50.0
    var firstToken = 0.2
    /// Time from the beginning of a session's turn to the beginning of its next (`chat`).
    var turnEvery = 5.0
    /// With a ramp, the first turns begin over this time and last past the measured part, so that
    /// afterwards all of them are in flight. Deltas and the server's processor time are measured
    /// only after it (`chat`). 0: no ramp; turns begin over `turnEvery`, and the whole part is
    /// measured.
    var ramp = 0.0
    /// How long after the measured part a turn that has not ended is waited for.
    var turnPatience = 15.0
    /// Whether speech is recognised and answered; otherwise it is only decoded and passed to the
    /// voice activity model.
    var replies = true
    /// Silence after each run of the recording.
    var pause = 6.0
    /// How much of a reply is played before it is interrupted.
    var interruptAfter = 0.5
    /// How long a session stays open (`churn`); they are opened at `connectRate`.
    var lifetime = 2.0
    /// The time over which the connections are opened again (`reconnect`).
    var jitter = 2.0
    /// Whether sessions can be resumed, and come back to their own (`reconnect`).
    var resume = false
    /// The path of the upgrade request; nil: /debug/echo for echoes, otherwise /v1/realtime.
    var path: String?
    /// Seed of all random numbers.
    var seed: UInt64 = 1

    /// The default plan of a kind.
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

    /// Time from the beginning of the measured part until all turns have deltas; 0 without a ramp.
    var rampSeconds: Double { ramp > 0 ? ramp + firstToken : 0 }

    /// Whether the connections are echoes, for which the server has no session.
    var isEcho: Bool { kind == .echo || kind == .slowReaders }

    /// The path used where the target's URL has none.
    var standardPath: String { path ?? (isEcho ? "/debug/echo" : "/v1/realtime?model=scripted") }

    /// The numbers of sessions that chat, speak, or do not read.
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

    /// The scenario of the warm-up: a few sessions for a short time.
    var warmingUp: Scenario {
        var small = self
        let all = roles
        small.sessions = min(sessions, 64)
        small.connectRate = 500
        (small.chatting, small.speaking) = (min(all.chatting, 16), min(all.speaking, 16))
        // The warm-up must not fill the server's buffers.
        if kind == .slowReaders { small.kind = .echo }
        (small.tokens, small.tokenRate, small.firstToken, small.turnEvery) = (10, 100, 0.05, 1)
        small.ramp = 0
        // All are back before its end, so that no session waits for its client afterwards.
        small.jitter = min(jitter, 0.1)
        small.seconds = all.speaking > 0 ? 3 : 1.5
        return small
    }

    /// How many sessions have which role; the others are idle, or echo.
    struct Roles: Equatable, Sendable {
        var slow: Int
        var speaking: Int
        var chatting: Int
    }

    /// The text of the user's messages, which the scripted model reads as its script.
    var chatPrompt: String {
        "tokens=\(tokens) rate=\(tokenRate) first=\(firstToken * 1_000)"
    }
}

/// A server under load: its addresses and its processes.
struct Target: Codable, Equatable, Sendable {
    /// Its name in reports, as `Parley` or `Node 24, ws`.
    var name: String
    /// `ws://` or `wss://` URLs. A server of several processes has several, among which the
    /// sessions are divided evenly.
    var urls: [String]
    /// The processes whose memory and processor time are measured; empty: none.
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
