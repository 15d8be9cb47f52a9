// The time that a WebSocket message may take, and what the deadline of a WebSocket means, as values.

import Session
import Testing

@testable import Server

@Suite struct MessageRulesTests {
    private static func settings() -> ConnectionSettings {
        var settings = ConnectionSettings()
        settings.webSocket.messageGrace = .seconds(10)
        settings.webSocket.minMessageBytesPerSecond = 1_000
        settings.webSocket.maxMessageBytes = 5_000
        settings.slowReaderTimeout = .seconds(20)
        settings.webSocket.idleTimeout = .seconds(75)
        settings.webSocket.messageIdleTimeout = .seconds(300)
        return settings
    }

    @Test func aMessageHasItsGraceAndTheTimeOfItsBytes() {
        let rules = MessageRules(Self.settings().webSocket)
        let first = rules.messageDue(Connection.noMessageDue, after: 500, at: .milliseconds(1_000))
        #expect(first == .milliseconds(11_500))
        #expect(
            rules.messageDue(first, after: 1_000, at: .milliseconds(9_000)) == .milliseconds(12_500)
        )
        #expect(rules.messageDue(first, after: 0, at: .milliseconds(9_000)) == first)
    }

    @Test func noMessageTakesLongerThanTheLongest() {
        let rules = MessageRules(Self.settings().webSocket)
        let due = rules.messageDue(
            Connection.noMessageDue, after: 1 << 30, at: .milliseconds(1_000))
        #expect(due == .milliseconds(16_000))
        #expect(
            rules.messageDue(due, after: 9_000, at: .milliseconds(2_000)) == .milliseconds(17_000))
    }

    /// A state of a WebSocket that is looked at after 400 s, and what is overdue then.
    struct Case: Sendable {
        let expected: WebSocketTimer?
        let change: @Sendable (Connection) -> Void

        init(_ expected: WebSocketTimer?, _ change: @escaping @Sendable (Connection) -> Void) {
            self.expected = expected
            self.change = change
        }
    }

    private static let now = Instant.milliseconds(400_000)

    private static let cases = [
        Case(nil) { $0.lastReceived = now },
        Case(.ping) { $0.lastReceived = .milliseconds(375_000) },
        Case(nil) {
            $0.lastReceived = .milliseconds(375_000)
            $0.isPinged = true
        },
        Case(.silence) { $0.lastReceived = .milliseconds(325_000) },
        Case(.idleMessages) { $0.lastMessage = .milliseconds(100_000) },
        Case(.slowMessage) {
            $0.lastMessage = .milliseconds(0)
            $0.messageDue = now
        },
        Case(.excused) {
            $0.messageDue = now
            $0.pending = [1]
        },
        Case(.slowReader) {
            $0.pending = [1]
            $0.backlog = OutputBacklog()
            $0.backlog?.overSoftLimitSince = .milliseconds(380_000)
        },
        Case(.noCall) {
            $0.role = .front
            $0.phaseStart = .milliseconds(390_000)
        },
        Case(.ping) {
            $0.lastReceived = .milliseconds(375_000)
            $0.backlog = OutputBacklog()
            $0.backlog?.overSoftLimitSince = .milliseconds(380_001)
        },
    ]

    @Test(arguments: cases.indices) func aDeadlineMeansTheFirstRuleThatIsBroken(index: Int) {
        let connection = Connection(
            token: EventToken(.connection, index: 0, generation: 0), handle: 1, at: Self.now)
        connection.state = .webSocket
        Self.cases[index].change(connection)
        #expect(
            connection.overdue(at: Self.now, Self.settings()) == Self.cases[index].expected)
    }
}
