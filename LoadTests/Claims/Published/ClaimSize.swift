// The sizes of the claims' loads: those of the full table, and those of a quick run that shows that
// everything works.
//
// The full table fits into 40 minutes on two cores: each claim states the seconds of a sample, and a
// test adds them up. The seconds are those of the machine on which the sizes were chosen.

import CLinux

/// Rounds, seconds and sizes of all claims.
struct ClaimSize {
    /// Samples of each contender: as many as a verdict takes.
    var rounds = ClaimFinding.minRounds
    /// Milliseconds of one measurement of echoes.
    var slice = 1_500
    var wrkSeconds = 3
    /// Documents parsed in a round.
    var parses = 60
    /// The stacks that take part in claims about chats and streams, which take longest.
    var chatStacks = Stack.allCases
    /// The measured part of a run of chats, in seconds.
    var chatSeconds = 4.0
    /// Numbers of sessions to try, from the top, until a stack can hold them.
    var sessionSteps = [10_000, 4_000, 2_000, 1_000]
    /// Deltas of a stream of server-sent events, one a second.
    var streamDeltas = 5
    /// Concurrent streams of server-sent events.
    var streams = ClaimSize.streams(descriptors: raiseDescriptorLimit())
    /// Sessions that are opened at once.
    var storm = 4_000
    /// Sessions that are open beside `turns` in progress.
    var busySessions = 10_000
    var turns = 1_000
    /// The measured part of a step of the search for the turns that a core carries, in seconds.
    var stepSeconds = 1.5
    /// The distance of its last two steps.
    var stepResolution = 1
    /// Seconds of a scenario beside its opening, its measured part and its last turns: the start of
    /// its processes, a warm-up, closing.
    static let scenarioSeconds = 5.0

    /// Those of them that have sessions.
    var chatAgents: [Stack] { chatStacks.filter(Stack.agents.contains) }

    /// Streams that a process has descriptors for, at most 10,000: each takes two, its client's and
    /// the model's.
    static func streams(descriptors: Int) -> Int {
        min(10_000, max(100, (descriptors - 1_000) / 2))
    }

    /// The sizes of the full table.
    static let full = ClaimSize()

    /// The sizes of a quick run.
    static var quick: ClaimSize {
        var size = ClaimSize()
        size.rounds = 1
        size.chatStacks = [.parley, .node, .nodeHTTP, .fastapi]
        size.streamDeltas = 2
        size.slice = 500
        size.wrkSeconds = 1
        size.parses = 15
        size.chatSeconds = 1.5
        size.sessionSteps = [1_000, 500]
        size.streams = 300
        size.storm = 500
        (size.busySessions, size.turns) = (500, 50)
        (size.stepSeconds, size.stepResolution) = (1, 4)
        return size
    }
}
