// Which connections are flushed, and what an amount of queued output asks for.

import Codec
import Session
import Testing

@testable import Server

@Suite struct OutputScheduleTests {
    private let pool = ChunkPool()

    private func connection(_ slot: Int, _ state: Connection.State = .webSocket) -> Connection {
        let connection = Connection(
            token: EventToken(.connection, index: slot, generation: 0), handle: 1,
            at: .milliseconds(0))
        connection.state = state
        return connection
    }

    /// Queues so many bytes, judges, and takes them away again.
    private func verdict(
        _ output: OutputSchedule, on connection: Connection, bytes: Int
    ) -> OutputVerdict {
        let piece = [UInt8](repeating: 1, count: bytes)
        piece.withUnsafeBytes { connection.output.append($0, pool: pool) }
        defer { connection.output.removeAll(into: pool) }
        let verdict = output.verdict(on: connection)
        #expect(output.isBeyondALimit(connection) || verdict == .fits)
        return verdict
    }

    private func session() -> LiveSession {
        let context = SessionContext(
            voiceActivityModel: nil, hasRecognizer: false, hasSynthesizer: false)
        let session = VoiceSession(
            parameters: SessionParameters(model: "m"), context: context, seed: 1)
        return LiveSession(
            token: EventToken(.session, index: 0, generation: 0), session: session,
            caller: CallerTag(principal: nil, address: .unspecified))
    }

    @Test func aConnectionIsQueuedOnceUntilItsRound() {
        var output = OutputSchedule(softLimit: 100, hardLimit: 1_000)
        let (one, other, gone) = (connection(1), connection(2), connection(3, .closed))
        for each in [one, other, one, gone] { output.schedule(each) }
        let count = output.beginRound()
        #expect((0..<count).map { output.slot(at: $0) } == [1, 2])
        // Still dirty: the flush in progress comes to it.
        output.schedule(one)
        one.isDirty = false
        output.schedule(one)
        output.endRound()
        #expect(output.hasWork)
        let next = output.beginRound()
        #expect(next == 1 && output.slot(at: 0) == 1)
        output.endRound()
        #expect(!output.hasWork)
    }

    @Test func theLimitsSayWhatAnAmountAsksFor() {
        let output = OutputSchedule(softLimit: 100, hardLimit: 1_000)
        let client = connection(1)
        client.live = session()
        #expect(verdict(output, on: client, bytes: 100) == .fits)
        #expect(verdict(output, on: client, bytes: 101) == .pauseSources)
        #expect(verdict(output, on: client, bytes: 1_000) == .pauseSources)
        #expect(verdict(output, on: client, bytes: 1_001) == .cutOff)
        // Only a WebSocket has sources that can be paused.
        #expect(verdict(output, on: connection(2, .http), bytes: 500) == .fits)
        #expect(verdict(output, on: connection(2, .http), bytes: 1_001) == .cutOff)
        // An echo stops reading instead.
        let echo = connection(3)
        echo.role = .echo
        #expect(verdict(output, on: echo, bytes: 5_000) == .pauseSources)
    }

    @Test func sourcesGoOnAtHalfTheSoftLimit() {
        let output = OutputSchedule(softLimit: 100, hardLimit: 1_000)
        let client = connection(1)
        defer { client.output.removeAll(into: pool) }
        var seen: [Bool] = []
        for _ in 0..<5 {
            seen.append(output.mayResumeSources(of: client))
            [UInt8](repeating: 1, count: 25).withUnsafeBytes {
                client.output.append($0, pool: pool)
            }
        }
        #expect(seen == [true, true, true, false, false])
        #expect(!output.isWithinSoftLimit(client))
    }

    @Test func lateAudioIsDroppedWhereAQuarterGoesOrTheLimitIsNear() {
        let output = OutputSchedule(softLimit: 100, hardLimit: 1_000)
        let client = connection(1)
        defer { client.output.removeAll(into: pool) }
        [UInt8](repeating: 1, count: 400).withUnsafeBytes { client.output.append($0, pool: pool) }
        #expect(!output.isWorthDropping(lateBytes: 0, of: client))
        #expect(!output.isWorthDropping(lateBytes: 99, of: client))
        #expect(output.isWorthDropping(lateBytes: 100, of: client))
        [UInt8](repeating: 1, count: 700).withUnsafeBytes { client.output.append($0, pool: pool) }
        #expect(output.isWorthDropping(lateBytes: 1, of: client))
    }

    @Test func aBacklogIsUsedAgain() {
        var output = OutputSchedule(softLimit: 100, hardLimit: 1_000)
        let (one, other) = (connection(1), connection(2))
        let first = output.backlog(of: one)
        let same = output.backlog(of: one)
        #expect(first === same)
        first.overSoftLimitSince = .milliseconds(5)
        output.releaseBacklog(of: one)
        #expect(one.backlog == nil)
        let second = output.backlog(of: other)
        #expect(second === first && second.overSoftLimitSince == nil)
    }
}
