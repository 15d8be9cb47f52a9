// Failures of services: equal ones are one line and counts, different ones have a budget, and all
// are counted.

import Logging
import Session
import Synchronization
import Testing

@testable import Server

@Suite struct ServiceFaultLogTests {
    /// Keeps the lines of a log.
    private final class Lines: Sendable {
        let all = Mutex<[Logger.Metadata]>([])

        var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

        struct Handler: LogHandler {
            let lines: Lines
            var logLevel = Logger.Level.info
            var metadata: Logger.Metadata = [:]

            init(lines: Lines) { self.lines = lines }

            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { nil }
                set { _ = newValue }
            }

            func log(event: LogEvent) { lines.all.withLock { $0.append(event.metadata ?? [:]) } }
        }
    }

    private func fault(_ service: String = "llm", _ reason: String = "down") -> ServiceFault {
        ServiceFault(service: service, url: "http://models.test/v1", reason: reason)
    }

    private func second(_ seconds: Double) -> Instant {
        Instant(nanoseconds: 0) + .milliseconds(Int(seconds * 1_000))
    }

    @Test func equalFailuresAreOneLineAndThenCounts() {
        let log = ServiceFaultLog()
        let lines = Lines()
        for turn in 0..<694 {
            log.note(fault(), at: second(Double(turn) * 0.1), logger: lines.logger)
        }
        let all = lines.all.withLock { $0 }
        #expect(all.map { $0["count"]?.description } == [nil, "600"])
        #expect(log.totals.map(\.service) == ["llm"] && log.totals.map(\.count) == [694])
    }

    @Test func differentFailuresHaveABudgetOfLines() {
        let log = ServiceFaultLog()
        let lines = Lines()
        for turn in 0..<600 {
            log.note(
                fault("llm", "request \(turn)"), at: second(Double(turn)), logger: lines.logger)
        }
        // Ten at once, and six a minute.
        #expect((60...70).contains(lines.all.withLock { $0.count }))
        #expect(log.totals.map(\.count) == [600])
    }

    @Test func servicesDoNotHideEachOther() {
        let log = ServiceFaultLog()
        let lines = Lines()
        for turn in 0..<100 { log.note(fault("a", "\(turn)"), at: second(0), logger: lines.logger) }
        log.note(fault("b"), at: second(0), logger: lines.logger)
        #expect(lines.all.withLock { $0.last?["service"]?.description } == "b")
    }

    @Test func whatIsToleratedIsNoFailure() {
        let log = ServiceFaultLog()
        let lines = Lines()
        var fault = fault()
        fault.isTolerated = true
        fault.advice = "set llm-url"
        log.note(fault, at: second(0), logger: lines.logger)
        #expect(log.totals.map(\.count) == [0])
        #expect(lines.all.withLock { $0.first?["advice"]?.description } == "set llm-url")
    }
}
