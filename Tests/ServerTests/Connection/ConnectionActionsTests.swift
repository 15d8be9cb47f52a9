// The actions that follow changes of a connection's state, without a loop.

import Session
import Testing

@testable import Server

@Suite struct ConnectionActionsTests {
    private func connection(_ state: Connection.State) -> Connection {
        let connection = Connection(
            token: EventToken(.connection, index: 0, generation: 0), handle: 1,
            at: .milliseconds(0))
        connection.state = state
        return connection
    }

    @Test func bytesAreASignOfLifeAndPutThePingOff() {
        let client = connection(.webSocket)
        #expect(client.handleReceived(at: .milliseconds(5)) == [])
        client.isPinged = true
        #expect(client.handleReceived(at: .milliseconds(9)) == .rearm)
        #expect(!client.isPinged && client.lastReceived == .milliseconds(9))
    }

    @Test func pendingMessagesStopReadingAndAreResumed() {
        let client = connection(.webSocket)
        #expect(client.keepPending([1, 2]) == [.watch, .resume])
        #expect(client.pending == [1, 2] && client.isPaused)
    }

    /// An echo whose output is full resumes its messages when there is room, not before.
    @Test func anEchoWithoutRoomResumesWhenThereIsSome() {
        let echo = connection(.webSocket)
        #expect(echo.stopTakingMessages(for: .room) == .watch)
        #expect(echo.isPaused)
        #expect(echo.keepPending([1]) == .watch)
        #expect(echo.takeMessagesAgain(after: .room) == [.watch, .resume])
        #expect(echo.takeMessagesAgain(after: .room) == [])
        echo.pending = []
        #expect(!echo.isPaused)
        _ = echo.stopTakingMessages(for: .room)
        #expect(echo.takeMessagesAgain(after: .room) == .watch)
    }

    @Test func theSoftLimitHasItsTimeFromTheFirstMoment() {
        let client = connection(.webSocket)
        let backlog = OutputBacklog()
        #expect(client.handleSoftLimit(backlog, at: .milliseconds(1)) == .rearm)
        #expect(client.handleSoftLimit(backlog, at: .milliseconds(2)) == [])
        #expect(backlog.overSoftLimitSince == .milliseconds(1))
    }

    @Test func closingHasATimeOfItsOwnAndTakesMessagesAgain() {
        let echo = connection(.webSocket)
        _ = echo.stopTakingMessages(for: .room)
        _ = echo.keepPending([1])
        #expect(echo.beginClosing(at: .milliseconds(7)) == [.rearm, .watch, .resume])
        #expect(echo.state == .closing && echo.phaseStart == .milliseconds(7))
        #expect(connection(.webSocket).beginClosing(at: .milliseconds(7)) == .rearm)
    }

    @Test func lingeringLetsGoOfInputAndFlushes() {
        let client = connection(.http)
        client.pending = [1, 2, 3]
        let actions = client.beginLingering(at: .milliseconds(3))
        #expect(actions == [.settle, .rearm, .watch, .flush])
        #expect(client.http == nil && client.pending.isEmpty && client.state == .lingering)
        #expect(!client.isPaused, "input is read to be discarded")
    }

    @Test func aClosedConnectionIsRemovedAndFlushedNoMore() {
        let client = connection(.webSocket)
        #expect(client.beginRemoval() == .remove)
        #expect(client.state == .closed)
        var output = OutputSchedule(softLimit: 10, hardLimit: 100)
        output.schedule(client)
        #expect(!output.hasWork)
    }
}
