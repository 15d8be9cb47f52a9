// Programs that the server runs, as real processes, because the kernel matters here: lines both
// ways, the program's own end, the pause before the next start, and the end with the server.

import Agents
import CLinux
import Session
import Synchronization
import Testing

@testable import Server

/// The lines and the end of a program, for a test that waits for them.
private final class ProgramLog: Sendable {
    private let lock = ConditionLock()
    private nonisolated(unsafe) var events: [String] = []

    func note(_ event: LineProgramEvent) {
        lock.withLock {
            switch event {
            case .started: events.append("started")
            case .line(let line): events.append(String(decoding: line, as: UTF8.self))
            case .ended(let reason): events.append("ended: \(reason)")
            }
            lock.broadcast()
        }
    }

    /// The first events, once there are so many, or when no more come.
    func first(_ count: Int) -> [String] {
        lock.withLock {
            let end = MonotonicClock.now + HangGuard.duration
            while events.count < count, MonotonicClock.now < end {
                lock.wait(atMost: HangGuard.duration)
            }
            return Array(events.prefix(count))
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct ChildProcessTests {
    private func make(_ command: String...) -> (child: ChildProcess, log: ProgramLog) {
        let log = ProgramLog()
        // An hour: a second start comes within it, however slow the machine is.
        let child = ChildProcess(
            command: command, environment: ["GREETING=hello"], firstPause: .seconds(3_600)
        ) {
            log.note($0)
        }
        return (child, log)
    }

    @Test func linesGoBothWaysAndTheProgramEndsWithTheServer() throws {
        let (child, log) = make("cat")
        try child.start()
        #expect(log.first(1) == ["started"])
        try child.send(Array("one".utf8))
        try child.send([UInt8](repeating: 0x78, count: 300_000))
        let long = String(repeating: "x", count: 300_000)
        #expect(log.first(3) == ["started", "one", long])
        child.stop()
        #expect(log.first(4).last == "ended: the server is stopping")
    }

    @Test func aProgramHasTheUsualEnvironmentAndWhatItIsGiven() throws {
        setenv("PARLEY_SECRET_OF_TESTS", "secret", 1)
        let (child, log) = make(
            "sh", "-c", "echo $GREETING ${PARLEY_SECRET_OF_TESTS-none} ${PATH:+path}; cat")
        try child.start()
        #expect(log.first(2).last == "hello none path")
        child.stop()
    }

    /// The server blocks signals and ignores SIGPIPE. A program that inherited that could not be
    /// ended by a signal, and would not end with the reader of its output.
    @Test func aProgramHasAllSignalsAtTheirDefaults() throws {
        ServerSignals.ignoreFailedWrites()
        // The last seven digits are the signals 1 to 28; glibc ignores two of its own above.
        let lastDigits = "sed 's/.*\\(.......\\)$/\\1/' | tr '\\n' ' '"
        let (child, log) = make(
            "sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status | \(lastDigits); echo; cat")
        try child.start()
        #expect(log.first(2).last == "0000000 0000000 ")
        child.stop()
    }

    @Test func aProgramThatEndsPausesBeforeItsNextStart() throws {
        let (child, log) = make("true")
        try child.start()
        #expect(log.first(2) == ["started", "ended: it has ended"])
        #expect(throws: AgentError.self) { try child.start() }
        child.stop()
    }

    @Test func aProgramThatDoesNotExistIsReportedAsMissing() throws {
        let (child, log) = make("no-such-program-anywhere")
        try child.start()
        #expect(log.first(1) == ["ended: cannot be started: no-such-program-anywhere"])
        child.stop()
    }

    @Test func aProgramThatIgnoresSignalsIsKilled() throws {
        let (child, log) = make("sh", "-c", "trap '' TERM; echo up; sleep 1000 & wait; sleep 1000")
        try child.start()
        #expect(log.first(2).last == "up")
        child.stop()
        #expect(log.first(3).last == "ended: the server is stopping")
    }
}
