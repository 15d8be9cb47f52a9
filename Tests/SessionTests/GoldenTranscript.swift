// Golden transcripts: what a client sees of a scripted conversation, line by line, in
// Tests/Fixtures/transcripts. `UPDATE_GOLDEN=1 make unit T=SessionTests` rewrites them; the diff is
// reviewed.

import TestMaterial
import Testing

/// Compares a script's transcript with its golden one.
func expectGolden(
    _ script: ScriptedSession, _ name: String, sourceLocation: SourceLocation = #_sourceLocation
) throws {
    let file = GoldenFile(
        "Tests/Fixtures/transcripts/\(name).transcript", test: sourceLocation.fileID)
    let seen = script.transcript.joined(separator: "\n") + "\n"
    if let difference = try file.difference(from: seen) {
        Issue.record("\(difference)", sourceLocation: sourceLocation)
    }
}
