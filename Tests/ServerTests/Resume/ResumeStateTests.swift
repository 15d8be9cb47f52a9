// The rules of one session that can be resumed, on times and bytes that the tests choose.

import Session
import Testing

@testable import Server

@Suite struct ResumeStateTests {
    private static let window = Duration.seconds(120)
    private static let random = Array<UInt8>(1...20)

    private func makeState() -> ResumeState {
        ResumeState(random: Self.random, window: Self.window, at: .milliseconds(0))
    }

    private func note(_ text: String, in state: ResumeState, at milliseconds: Int) {
        Array(text.utf8).withUnsafeBytes {
            state.note($0, limit: 1 << 20, at: .milliseconds(milliseconds))
        }
    }

    private func pong(_ payload: [UInt8], to state: ResumeState, at milliseconds: Int) {
        payload.withUnsafeBytes { state.handlePong($0, at: .milliseconds(milliseconds)) }
    }

    @Test func atRestItTakesLittleAndWaitsForTheRenewalOnly() {
        let state = makeState()
        #expect(state.heldBytes <= 200)
        #expect(state.deadline(sessionEnd: nil) == .milliseconds(120_000))
    }

    @Test func theOldHandleIsGoodUntilTheNextButOne() {
        let state = makeState()
        let first = state.secret
        #expect(!state.isRenewalDue(at: .milliseconds(119_999)))
        #expect(state.isRenewalDue(at: .milliseconds(120_000)))
        state.renew(Array(repeating: 9, count: 16), at: .milliseconds(120_000))
        let second = state.secret
        #expect(first != second && state.accepts(first) && state.accepts(second))
        state.renew(Array(repeating: 8, count: 16), at: .milliseconds(240_000))
        #expect(!state.accepts(first) && state.accepts(second))
        #expect(state.expiry == .milliseconds(480_000))
    }

    @Test func aPongAcknowledgesWhatCameBeforeItsPing() {
        let state = makeState()
        note("a", in: state, at: 0)
        note("b", in: state, at: 10)
        #expect(state.deadline(sessionEnd: nil) == .milliseconds(1_000))
        #expect(state.isPingDue(at: .milliseconds(1_000)))
        let ping = state.takePing()
        #expect(!state.isPingDue(at: .milliseconds(9_000)), "one ping at a time")
        note("c", in: state, at: 1_100)
        pong([1, 2, 3], to: state, at: 1_200)
        #expect(state.log.first == 1, "it answers another ping")
        pong(ping, to: state, at: 1_200)
        #expect(state.log.first == 3)
        pong(ping, to: state, at: 1_300)
        #expect(state.isPingDue(at: .milliseconds(2_200)), "for what came since")
        pong(state.takePing(), to: state, at: 2_300)
        #expect(state.log.isEmpty && state.heldBytes == ResumeState.objectBytes)
        #expect(state.deadline(sessionEnd: nil) == .milliseconds(120_000))
    }

    @Test func aClientThatIsAwayIsNeitherPingedNorGivenAHandle() {
        let state = makeState()
        note("a", in: state, at: 0)
        state.detach(at: .milliseconds(119_000))
        // Its session is told at once; an earlier time would count as lateness of the loop.
        #expect(state.deadline(sessionEnd: nil) == .milliseconds(119_000))
        #expect(state.takeClientAwayNotice() && !state.takeClientAwayNotice())
        note("b", in: state, at: 119_500)
        #expect(state.deadline(sessionEnd: nil) == .milliseconds(239_000))
        #expect(!state.isPingDue(at: .milliseconds(130_000)))
        #expect(!state.isRenewalDue(at: .milliseconds(130_000)))
    }

    @Test func whatWasMissedIsHereOrNot() {
        for (epoch, offset, isRecovered) in [
            (UInt32(0), UInt64(1), true), (0, 3, true), (0, 4, false), (1, 1, false),
        ] {
            let state = makeState()
            for text in ["a", "b", "c"] { note(text, in: state, at: 0) }
            state.detach(at: .milliseconds(10))
            let position = ResumePosition(epoch: state.epoch &+ epoch, offset: offset)
            #expect(state.attach(from: position, at: .milliseconds(20)) == isRecovered)
            #expect(state.awayUntil == nil)
        }
        #expect(!makeState().attach(from: nil, at: .milliseconds(20)))
    }

    @Test func aNewEpochCountsAnew() {
        let state = makeState()
        note("a", in: state, at: 0)
        let before = state.epoch
        state.beginEpoch([9, 9, 9, 9])
        #expect(state.epoch != before && state.log.next == 1)
        state.beginEpoch([0, 0, 0, 0])
        #expect(state.epoch == 1, "0 is no epoch")
    }

    @Test func theEndIsAnnouncedInTime() {
        let state = makeState()
        #expect(state.deadline(sessionEnd: .milliseconds(100_000)) == .milliseconds(70_000))
        state.isWarned = true
        #expect(state.deadline(sessionEnd: .milliseconds(100_000)) == .milliseconds(120_000))
    }
}
