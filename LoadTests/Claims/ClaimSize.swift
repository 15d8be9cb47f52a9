// How thoroughly claims are measured: the full table, and a reduced one that only shows that
// everything works and which way the figures point.

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
    /// Rounds of runs of chats that take half a minute each.
    var longRounds = 2
    /// Sessions at once: the most that a stack holds is looked for from the top.
    var sessionSteps = [19_800, 10_000, 4_000, 2_000, 1_000]
    /// Deltas of a stream of server-sent events, one a second.
    var streamDeltas = 8
    /// Streams of server-sent events at once. Each is two descriptors of the 20,000 of a process.
    var streams = [1_000, 4_000, 9_500]
    /// Sessions that are opened at once.
    var storm = 4_000
    /// Turns in flight, and the sessions that are open meanwhile, these included.
    var turns: [(turns: Int, sessions: Int)] = [(100, 1_000), (300, 3_000), (1_000, 10_000)]

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
        size.turns = [(50, 500)]
        return size
    }
}
