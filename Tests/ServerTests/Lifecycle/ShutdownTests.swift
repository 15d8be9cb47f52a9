// The end of a shard as values, without connections: which step follows which, what each session
// waits for, and what still counts after a stop.

import Session
import Testing

@testable import Server

/// The end of a shard with connections that a test sets.
private struct ShutdownWorld {
    var shutdown: Shutdown
    var standings: [Int: ShutdownStanding] = [:]
    var hasSessions = false

    init() {
        var settings = DrainSettings()
        settings.timeout = .seconds(30)
        settings.jitter = .seconds(4)
        shutdown = Shutdown(settings, closeTimeout: .seconds(5))
    }

    static func token(_ slot: Int) -> EventToken {
        EventToken(.connection, index: slot, generation: 1)
    }

    /// Half of the longest delay stands for a random one.
    static func half(_ limit: Duration) -> Duration { limit / 2 }

    mutating func handle(_ step: ShutdownStep, at milliseconds: Int) -> [ShutdownAction] {
        let standings = standings
        let connections = standings.sorted { $0.key < $1.key }
            .map { DrainedConnection(token: Self.token($0.key), standing: $0.value) }
        return shutdown.handle(
            step, standing: { standings[$0.index] }, connections: connections,
            waits: { forAll in standings.values.contains { forAll || $0.isAwaited } },
            hasSessions: hasSessions, at: .milliseconds(milliseconds), drawDelay: Self.half)
    }

    /// A shard that has closed its listeners at 0 ms, with these connections.
    static func closing(_ standings: [Int: ShutdownStanding]) -> ShutdownWorld {
        var world = ShutdownWorld()
        world.standings = standings
        _ = world.shutdown.drain(after: .zero, at: .milliseconds(0))
        _ = world.handle(.closeListeners, at: 0)
        return world
    }
}

@Suite struct ShutdownTests {
    private typealias World = ShutdownWorld

    @Test func aDrainAnnouncesItselfBeforeItClosesTheListeners() {
        var world = World()
        world.standings = [
            1: .webSocket(isBusy: true), 2: .keptAlive, 3: .webSocket(isBusy: false),
        ]
        #expect(world.shutdown.keepsConnections)
        let begun = world.shutdown.drain(after: .seconds(3), at: .milliseconds(0))
        #expect(begun == [.schedule(.closeListeners, at: .milliseconds(3_000))])
        #expect(!world.shutdown.keepsConnections && !world.shutdown.hasClosedListeners)
        #expect(
            world.handle(.closeListeners, at: 3_000) == [
                .closeListeners,
                .schedule(.closeSession(World.token(1)), at: .milliseconds(5_000)),
                .schedule(.closeSession(World.token(3)), at: .milliseconds(5_000)),
                .schedule(.endDrain, at: .milliseconds(33_000)),
                .schedule(.review, at: .milliseconds(3_000)),
            ])
        #expect(world.shutdown.hasClosedListeners && !world.shutdown.isStopping)
    }

    @Test func aSessionClosesAtItsTimeOrAfterItsTurn() {
        var world = World.closing([
            1: .webSocket(isBusy: false), 2: .webSocket(isBusy: true), 3: .awaited,
        ])
        #expect(
            world.handle(.closeSession(World.token(1)), at: 10) == [
                .close(World.token(1), after: .idle)
            ])
        #expect(world.handle(.closeSession(World.token(2)), at: 20) == [])
        #expect(world.handle(.closeSession(World.token(3)), at: 30) == [], "no WebSocket any more")
        #expect(world.handle(.closeSession(World.token(9)), at: 40) == [], "closed meanwhile")
        let next = ShutdownAction.schedule(.review, at: .milliseconds(200))
        #expect(world.handle(.review, at: 100) == [next])
        world.standings[2] = .webSocket(isBusy: false)
        #expect(world.handle(.review, at: 100) == [.close(World.token(2), after: .finished), next])
        #expect(world.handle(.review, at: 100) == [next], "closed once")
    }

    /// The standing of the only connection, whether the server has sessions, and whether the shard
    /// waits.
    @Test(
        arguments: [
            (nil, false, false), (nil, true, false), (.keptAlive, false, false),
            (.keptAlive, true, true), (.awaited, false, true),
            (.webSocket(isBusy: false), false, true), (.webSocket(isBusy: true), true, true),
        ] as [(ShutdownStanding?, Bool, Bool)])
    func aReviewWaitsForWhatMayStillBeAnswered(
        standing: ShutdownStanding?, hasSessions: Bool, waits: Bool
    ) {
        var world = World.closing([:])
        world.standings[1] = standing
        world.hasSessions = hasSessions
        let actions = world.handle(.review, at: 0)
        #expect(world.shutdown.isStopping == !waits)
        #expect(
            actions
                == (waits
                    ? [.schedule(.review, at: .milliseconds(100))]
                    : [.stop, .schedule(.cutOff, at: .milliseconds(5_000))]))
    }

    @Test func theTimeoutClosesEverySessionAndStops() {
        var world = World.closing([
            1: .webSocket(isBusy: true), 2: .webSocket(isBusy: false), 3: .keptAlive,
        ])
        #expect(
            world.handle(.endDrain, at: 30_000) == [
                .close(World.token(1), after: .cutOff), .close(World.token(2), after: .idle),
                .stop, .schedule(.cutOff, at: .milliseconds(35_000)),
            ])
        #expect(world.handle(.cutOff, at: 35_000) == [.cutOff])
    }

    @Test func anUpgradeAfterTheListenersClosedHasATimeToCloseWithinTheDrain() {
        var world = World()
        func upgrade(at milliseconds: Int) -> [ShutdownAction] {
            world.shutdown.handleUpgrade(
                of: World.token(7), at: .milliseconds(milliseconds), drawDelay: World.half)
        }
        func close(at milliseconds: Int) -> [ShutdownAction] {
            [.schedule(.closeSession(World.token(7)), at: .milliseconds(milliseconds))]
        }
        #expect(upgrade(at: 0) == [])
        world = World.closing([:])
        #expect(upgrade(at: 0) == close(at: 2_000))
        #expect(upgrade(at: 28_000) == close(at: 29_000), "half of what is left of the drain")
        #expect(upgrade(at: 31_000) == close(at: 31_000))
    }

    @Test func aStopEndsADrainAndNothingFollowsIt() {
        var world = World.closing([1: .webSocket(isBusy: true)])
        let stop = world.shutdown.stop(at: .milliseconds(50))
        #expect(stop == [.stop, .schedule(.cutOff, at: .milliseconds(5_050))])
        #expect(world.shutdown.stop(at: .milliseconds(60)) == [])
        #expect(world.shutdown.drain(after: .zero, at: .milliseconds(60)) == [])
        for step in [
            ShutdownStep.closeListeners, .closeSession(World.token(1)), .review, .endDrain,
        ] {
            #expect(world.handle(step, at: 100) == [])
        }
    }

    @Test func aSecondDrainChangesNothing() {
        var world = World()
        _ = world.shutdown.drain(after: .seconds(1), at: .milliseconds(0))
        #expect(world.shutdown.drain(after: .zero, at: .milliseconds(1)) == [])
        #expect(world.handle(.review, at: 2) == [] && world.shutdown.phase == .announced)
    }
}
