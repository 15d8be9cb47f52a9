// Equal warnings are one line and then counts; everything else is written as it comes.

import Logging
import Synchronization
import Testing

@testable import parley

@Suite struct FoldingLogHandlerTests {
    /// A log on a clock that the test moves.
    private final class World: Sendable {
        let seconds = Mutex(0.0)
        let text = Mutex("")

        func logger(_ folds: LogFolds) -> Logger {
            let lines = LineLogHandler(format: .text, level: .debug) { line in
                self.text.withLock { $0 += line }
            }
            return Logger(label: "test") { _ in FoldingLogHandler(lines, folds: folds) }
        }

        func folds() -> LogFolds { LogFolds { self.seconds.withLock { $0 } } }

        /// The lines without their times.
        var lines: [String] {
            text.withLock { $0 }.split(separator: "\n").map {
                String($0.dropFirst("2026-01-31T12:00:00.123Z ".count))
            }
        }
    }

    @Test func equalWarningsAreOneLineAndThenCounts() {
        let world = World()
        let logger = world.logger(world.folds())
        for turn in 0..<500 {
            world.seconds.withLock { $0 = Double(turn) / 8 }
            logger.warning("tool failed", metadata: ["tool": "a", "session": "\(turn)"])
        }
        #expect(
            world.lines == [
                "warning  tool failed session=0 tool=a",
                "warning  tool failed repeated=479 session=479 tool=a",
            ])
    }

    @Test func whatDiffersIsWritten() {
        let world = World()
        let logger = world.logger(world.folds())
        logger.warning("a", metadata: ["tool": "x"])
        logger.warning("a", metadata: ["tool": "y"])
        logger.warning("b", metadata: ["tool": "x"])
        for _ in 0..<3 { logger.error("e") }
        for _ in 0..<3 { logger.info("i") }
        #expect(world.lines.count == 9)
    }

    @Test func aCountIsWrittenWithTheNextLineOfAnyKind() {
        let world = World()
        let logger = world.logger(world.folds())
        for _ in 0..<5 { logger.warning("w") }
        world.seconds.withLock { $0 = 61 }
        logger.info("other")
        #expect(world.lines == ["warning  w", "warning  w repeated=4", "info     other"])
        world.seconds.withLock { $0 = 200 }
        logger.info("other")
        // The warning was forgotten, so the next one is the first again.
        logger.warning("w")
        #expect(world.lines.suffix(2) == ["info     other", "warning  w"])
    }

    @Test func manyDifferentWarningsAreNotHeldForEver() {
        let world = World()
        let folds = world.folds()
        let logger = world.logger(folds)
        for turn in 0..<1_000 { logger.warning("w \(turn)") }
        #expect(world.lines.count == 1_000)
        world.seconds.withLock { $0 = 61 }
        logger.warning("after")
        logger.warning("after")
        #expect(world.lines.count == 1_001)
    }
}
