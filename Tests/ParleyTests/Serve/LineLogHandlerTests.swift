// Log lines: one event is one line, whatever it contains, and JSON lines are JSON.

import Codec
import Foundation
import Logging
import Synchronization
import Testing

@testable import parley

@Suite struct LineLogHandlerTests {
    private final class Lines: Sendable {
        let text = Mutex("")
    }

    private func line(
        _ format: LogFormat, level: Logger.Level = .info, _ message: Logger.Message,
        metadata: Logger.Metadata = [:], handlerMetadata: Logger.Metadata = [:]
    ) -> String {
        let lines = Lines()
        var handler = LineLogHandler(format: format, level: .debug) { line in
            lines.text.withLock { $0 += line }
        }
        handler.metadata = handlerMetadata
        let made = handler
        Logger(label: "test") { _ in made }.log(level: level, message, metadata: metadata)
        return lines.text.withLock { $0 }
    }

    @Test func textLinesHaveTimeLevelMessageAndMetadata() {
        let made = line(
            .text, level: .warning, "the disk is full",
            metadata: ["path": "/tmp/a b", "bytes": "12"], handlerMetadata: ["shard": "1"])
        #expect(
            made.dropFirst("2026-01-31T12:00:00.123Z ".count)
                == "warning  the disk is full bytes=12 path=\"/tmp/a b\" shard=1\n")
    }

    @Test func aLineBreakCannotForgeASecondLine() {
        let made = line(.text, "bad name: a\n2026 info ok", metadata: ["key": "x\r\ny"])
        #expect(made.split(separator: "\n", omittingEmptySubsequences: false).count == 2)
    }

    @Test(arguments: ["\u{1B}[2J", "\u{9B}2J", "\u{7F}", "\u{202E}", "\u{2069}", "\u{2028}", "\r"])
    func controlCharactersAreEscaped(text: String) {
        for format in LogFormat.allCases {
            let made = line(
                format, "got \(text)", metadata: ["plain": "a\(text)", "quoted": "a \(text)"])
            #expect(made.hasSuffix("\n"))
            #expect(!made.dropLast().unicodeScalars.contains { $0.isUnseen })
        }
    }

    @Test func jsonLinesAreObjectsWithTheirFields() throws {
        let made = line(
            .json, "say \"hi\"\u{1}\u{2028}\n\\",
            metadata: [
                "list": ["a", "b"], "map": ["k": "v"], "level": "forged",
                "n": .stringConvertible(5),
            ])
        #expect(made.hasSuffix("}\n"))
        #expect(made.filter { $0.isNewline }.count == 1)
        let object = try #require(
            JSONSerialization.jsonObject(with: Data(made.utf8)) as? [String: Any])
        #expect(object["message"] as? String == "say \"hi\"\u{1}\u{2028}\n\\")
        #expect(object["level"] as? String == "info")
        #expect(object["list"] as? [String] == ["a", "b"])
        #expect(object["map"] as? [String: String] == ["k": "v"])
        #expect(object["n"] as? String == "5")
        #expect((object["time"] as? String)?.hasSuffix("Z") == true)
    }

    @Test func lowerLevelsAreNotLogged() {
        #expect(line(.text, level: .trace, "quiet") == "")
    }

    @Test(arguments: [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_709_210_096.5, "2024-02-29T12:34:56.500Z"),
    ])
    func timestampsAreRFC3339(seconds: Double, text: String) {
        #expect(UTCTimestamp(secondsSince1970: seconds).description == text)
    }
}
