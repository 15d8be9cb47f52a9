// The time of day at which a session ends stays the same while both clocks run, and follows a clock
// that is set.

import Session
import Testing

@testable import Server

@Suite struct SessionCalendarTests {
    @Test func anEndStaysTheSameWhileBothClocksRun() {
        var calendar = SessionCalendar()
        // The seconds of the two clocks do not begin at the same time.
        for (milliseconds, wallSeconds) in [
            (400, 1_000), (900, 1_001), (1_100, 1_001), (1_900, 1_002),
        ] {
            let end = calendar.seconds(
                at: .milliseconds(60_500), now: .milliseconds(milliseconds),
                wallSeconds: wallSeconds)
            #expect(end == 1_060)
        }
    }

    @Test func aClockThatIsSetIsFollowed() {
        var calendar = SessionCalendar()
        let end = Instant.milliseconds(10_000)
        #expect(calendar.seconds(at: end, now: .milliseconds(0), wallSeconds: 0) == 10)
        #expect(calendar.seconds(at: end, now: .milliseconds(1_000), wallSeconds: 5_001) == 5_010)
    }
}
