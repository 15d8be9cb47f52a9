// The actions of a caller in a call, and their result: a state machine over ticks of 20 ms. It knows
// no socket and no clock.
//
//   (greeting ──heard──▶) speaking ──said──▶ awaiting ──reply begins──▶ hearing ──silence──▶ next turn
//                                                │                                           or over
//                                                └──patience is over──▶ failed
//
// A reply has ended when all of it was played and nothing more came for `quietTicks`.

import Codec

/// The turns of a caller.
struct CallScript {
    /// One turn.
    enum Turn {
        case speech(Recording)
        case words(String)
        case keys(String)
    }

    /// In order.
    let turns: [Turn]
    /// Whether the agent speaks first.
    let awaitsGreeting: Bool
    /// Whether keys are a turn that is answered.
    let answersKeys: Bool
    /// Ticks until a reply must have begun.
    let patienceTicks: Int

    init(
        turns: [Turn], keys: String, awaitsGreeting: Bool, answersKeys: Bool = true,
        patience: Double
    ) {
        self.turns = turns + (keys.isEmpty ? [] : [.keys(keys)])
        self.awaitsGreeting = awaitsGreeting
        self.answersKeys = answersKeys
        patienceTicks = max(1, Int(min(patience, 86_400) * 50))
    }
}

/// The progress of one caller.
struct CallProgress {
    /// Ticks of quiet that end a reply. 60: 1.2 s, longer than the pauses between a reply's clauses.
    static let quietTicks = 60

    /// The next action of the caller.
    enum Step: Equatable {
        /// Listen.
        case listen
        /// Say the packet with this number of the turn's recording.
        case say(turn: Int, packet: Int)
        /// Have these words recognised.
        case tell(turn: Int)
        /// Press the key with this place among the turn's keys.
        case press(turn: Int, key: Int)
        /// The call is over.
        case hangUp
        /// No reply has come.
        case fail
    }

    private enum State {
        case acting(tick: Int)
        /// This many ticks after the end of the caller's speech.
        case awaiting(ticks: Int)
        case hearing(quiet: Int)
    }

    private let script: CallScript
    private var state: State
    /// The turn in progress; -1: the greeting.
    private(set) var turn: Int
    /// Ticks from the end of the caller's speech to the reply, by turn; the greeting's is not there.
    private(set) var delays: [Int] = []

    init(_ script: CallScript) {
        self.script = script
        turn = script.awaitsGreeting ? -1 : 0
        state = script.awaitsGreeting ? .awaiting(ticks: 0) : .acting(tick: 0)
    }

    /// A tick passes.
    /// - Parameters:
    ///   - hasNews: whether something of a reply came since the last tick.
    ///   - isQuiet: whether all that came was played.
    mutating func tick(hasNews: Bool, isQuiet: Bool) -> Step {
        switch state {
        case .acting(let tick):
            // The reply may begin while the silence of the recording lasts.
            if hasNews, tick > 0, let end = speechEnd, tick >= end {
                delays.append(tick - end)
                state = .hearing(quiet: 0)
                return .listen
            }
            return act(tick)
        case .awaiting(let ticks):
            if hasNews {
                if turn >= 0 { delays.append(ticks) }
                state = .hearing(quiet: 0)
                return .listen
            }
            guard ticks < script.patienceTicks else { return .fail }
            state = .awaiting(ticks: ticks + 1)
            return .listen
        case .hearing(let quiet):
            guard !hasNews, isQuiet else {
                state = .hearing(quiet: 0)
                return .listen
            }
            guard quiet >= Self.quietTicks else {
                state = .hearing(quiet: quiet + 1)
                return .listen
            }
            turn += 1
            state = .acting(tick: 0)
            return act(0)
        }
    }

    /// The tick of the turn in which the caller has finished speaking, or nil where there are no
    /// more turns.
    private var speechEnd: Int? {
        guard script.turns.indices.contains(turn) else { return nil }
        switch script.turns[turn] {
        case .speech(let recording):
            return recording.samplesOfSpeech / recording.rate.samples(inMilliseconds: 20)
        case .words: return 0
        case .keys(let keys): return (keys.count - 1) * 10
        }
    }

    private mutating func act(_ tick: Int) -> Step {
        guard turn < script.turns.count else { return .hangUp }
        state = .acting(tick: tick + 1)
        switch script.turns[turn] {
        case .speech(let recording):
            let packet = recording.rate.samples(inMilliseconds: 20)
            if tick * packet < recording.samples.count { return .say(turn: turn, packet: tick) }
        case .words:
            if tick == 0 { return .tell(turn: turn) }
        case .keys(let keys):
            // A key each 200 ms.
            if tick / 10 < keys.count {
                return tick % 10 == 0 ? .press(turn: turn, key: tick / 10) : .listen
            }
            guard script.answersKeys else { return .hangUp }
        }
        state = .awaiting(ticks: tick + 1 - (speechEnd ?? tick))
        return .listen
    }
}
