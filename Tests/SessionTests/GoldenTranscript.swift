// Golden transcripts: what a client sees of a scripted conversation, line by line, in
// Tests/Fixtures/transcripts. `UPDATE_GOLDEN=1 swift test` rewrites them; the diff is reviewed.

import Foundation
import Testing

/// Compares a script's transcript with its golden one.
func expectGolden(
    _ script: ScriptedSession, _ name: String, sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures/transcripts/\(name).transcript")
    let seen = script.transcript.joined(separator: "\n") + "\n"
    if ProcessInfo.processInfo.environment["UPDATE_GOLDEN"] == "1" {
        try seen.write(to: file, atomically: true, encoding: .utf8)
        return
    }
    let golden = try String(contentsOf: file, encoding: .utf8)
    let pairs = zip(golden.split(separator: "\n"), seen.split(separator: "\n"))
    for (line, (expected, found)) in pairs.enumerated() where expected != found {
        Issue.record(
            "\(name), line \(line + 1):\n  expected \(expected)\n  found    \(found)",
            sourceLocation: sourceLocation)
        return
    }
    #expect(golden == seen, "\(name) is longer or shorter", sourceLocation: sourceLocation)
}
