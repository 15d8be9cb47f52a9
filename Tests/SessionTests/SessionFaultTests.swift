// A broken invariant: it traps here and in simulation, and is an output in a production server.

import Codec
import Testing

@testable import Session

@Suite struct SessionFaultTests {
    /// A session whose state no sequence of inputs can reach.
    private static func brokenSession(reportsFaults: Bool) -> ScriptedSession {
        let script = ScriptedSession()
        script.context.reportsFaults = reportsFaults
        script.session.retrievals = Array(
            repeating: "item_1", count: VoiceSession.maxRetrievals + 1)
        return script
    }

    @Test func aFaultIsAnOutputWhereTheServerAsksForIt() {
        let script = Self.brokenSession(reportsFaults: true)
        script.send(.inputAudioBufferClear, at: 10)
        script.run(until: 20)
        #expect(script.faults == [.tooManyRetrievals])
        #expect(SessionFault.tooManyRetrievals.rawValue == "too_many_retrievals")
    }

    @Test func aFaultTrapsOtherwise() async {
        await #expect(processExitsWith: .failure) {
            let script = SessionFaultTests.brokenSession(reportsFaults: false)
            script.send(.inputAudioBufferClear, at: 10)
            script.run(until: 20)
        }
    }

    @Test func aSessionThatIsWholeReportsNothing() {
        let script = ScriptedSession()
        script.context.reportsFaults = true
        script.replies = [.text("Yes.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 5_000)
        #expect(script.faults.isEmpty && script.session.isIdle)
    }
}
