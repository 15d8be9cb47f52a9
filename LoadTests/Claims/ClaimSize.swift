// The sizes of the claims' loads: those of the full table, and those of a quick run that shows that
// everything works.

/// A number of turns in progress while more sessions are open.
struct TurnLoad {
    var turns: Int
    var sessions: Int
    /// Deltas a second in each turn.
    var rate: Double
    /// Whether stacks without a published figure take part too.
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
    /// Milliseconds of one measurement of echoes.
    var slice = 2_000
    var wrkSeconds = 4
    /// Documents parsed in a round.
    var parses = 60
    /// The stacks that take part in claims about chats, which take longest.
    var stacks = Stack.allCases
    /// The measured part of a run of chats.
    var chatSeconds = 8.0
    /// Rounds of claims about chats, which take a quarter of a minute each.
    var longRounds = 2
    /// Numbers of sessions to try, from the top, until a stack can hold them.
    var sessionSteps = [19_800, 10_000, 4_000, 2_000, 1_000]
    /// Deltas of a stream of server-sent events, one a second.
    var streamDeltas = 8
    /// Numbers of concurrent streams of server-sent events. Each takes two of the 20,000
    /// descriptors of a process.
    var streams = [1_000, 4_000, 9_500]
    /// Sessions that are opened at once.
    var storm = 4_000
    /// The loads of the claim about turns in progress.
    var turns = [
        TurnLoad(turns: 100, sessions: 1_000, rate: 50),
        TurnLoad(turns: 300, sessions: 3_000, rate: 50),
        TurnLoad(turns: 1_000, sessions: 10_000, rate: 10, isForAll: true),
        TurnLoad(turns: 1_000, sessions: 10_000, rate: 50),
    ]

    /// The sizes of the full table.
    static let full = ClaimSize()

    /// The sizes of a quick run.
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
