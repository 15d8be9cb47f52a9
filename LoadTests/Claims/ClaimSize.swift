// How thoroughly claims are measured: the full table, and a reduced one that only shows that
// everything works and which way the figures point.

/// Turns that are in flight while more sessions are open.
struct TurnLoad {
    var turns: Int
    var sessions: Int
    /// Deltas a second in each turn.
    var rate: Double
    /// Whether stacks take part that no published figure is about.
    var isForAll = false

    /// The load in a row's title.
    var title: String {
        "\(grouped(turns)) turns at \(Int(rate))/s, \(grouped(sessions)) sessions"
    }
}

/// Rounds, seconds and sizes of all claims.
struct ClaimSize {
    /// Samples of each contender.
    var rounds = 3
    /// Milliseconds of a turn of echoes.
    var slice = 2_000
    var wrkSeconds = 4
    /// Documents parsed in a round.
    var parses = 60
    /// Who takes part where sessions are chatted with, which takes longest.
    var stacks = Stack.allCases
    /// The measured part of a run of chats.
    var chatSeconds = 8.0
    /// Rounds of runs of chats, which take a quarter of a minute each.
    var longRounds = 2
    /// Sessions at once: the most that a stack holds is looked for from the top.
    var sessionSteps = [19_800, 10_000, 4_000, 2_000, 1_000]
    /// Deltas of a stream of server-sent events, one a second.
    var streamDeltas = 8
    /// Streams of server-sent events at once. Each is two descriptors of the 20,000 of a process.
    var streams = [1_000, 4_000, 9_500]
    /// Sessions that are opened at once.
    var storm = 4_000
    /// Turns in flight, the sessions that are open meanwhile, these included, and deltas a second
    /// of a turn.
    var turns = [
        TurnLoad(turns: 100, sessions: 1_000, rate: 50),
        TurnLoad(turns: 300, sessions: 3_000, rate: 50),
        TurnLoad(turns: 1_000, sessions: 10_000, rate: 10, isForAll: true),
        TurnLoad(turns: 1_000, sessions: 10_000, rate: 50),
    ]

    /// The full table.
    static let full = ClaimSize()

    /// The reduced one.
    static var quick: ClaimSize {
        var size = ClaimSize()
        size.rounds = 1
        size.longRounds = 1
        size.stacks = [.parley, .node, .fastapi]
        size.streamDeltas = 3
        size.slice = 500
        size.wrkSeconds = 1
        size.parses = 15
        size.chatSeconds = 3
        size.sessionSteps = [1_000, 500]
        size.streams = [300]
        size.storm = 500
        size.turns = [TurnLoad(turns: 50, sessions: 500, rate: 50)]
        return size
    }
}
