// The failures that an operator's page shows: few, the newest, and equal ones once.

import Session
import Testing

@testable import Server

@Suite struct RecentFailuresTests {
    private let failures = RecentFailures()

    @Test func equalFailuresAreCountedAndComeLast() {
        failures.note(.response, of: "sess_1", code: "a", reason: "No.")
        failures.note(.response, of: "sess_2", code: "a", reason: "No.")
        let first = failures.revision
        failures.note(.response, of: "sess_1", code: "a", reason: "No.")
        let kept = failures.all
        #expect(kept.failures.map(\.source) == ["sess_2", "sess_1"])
        #expect(kept.failures.map(\.count) == [1, 2])
        #expect(kept.revision != first)
    }

    @Test func theOldestGiveWay() {
        for number in 0..<RecentFailures.maxKept + 3 {
            failures.note(.transcription, of: "sess_\(number)", code: "", reason: "No.")
        }
        let kept = failures.all.failures
        #expect(kept.count == RecentFailures.maxKept)
        #expect(kept.first?.source == "sess_3")
    }

    @Test func aServiceIsShownWithItsAdviceAndNotWithItsPage() {
        var fault = ServiceFault(
            service: "llm", url: "http://host/v1", reason: String(repeating: "x", count: 9_000))
        (fault.status, fault.advice) = (401, "give the key")
        failures.note(fault)
        fault.isTolerated = true
        failures.note(fault)
        let kept = failures.all.failures
        #expect(kept.map(\.count) == [1])
        #expect(kept[0].code == "401" && kept[0].advice == "give the key")
        #expect(kept[0].reason.count == 300)
    }
}
