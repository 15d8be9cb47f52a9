// Locations of the conversations and of the table of recordings.

import Foundation
import TestMaterial
import YAML

/// The files under Tests/Fixtures.
enum Fixtures {
    /// An error in a fixture.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Fixtures")

    /// The names of all conversations, sorted.
    static let conversations: [String] = {
        let found = try? FileManager.default.contentsOfDirectory(
            atPath: folder.appending(path: "conversations").path)
        return (found ?? []).filter { $0.hasSuffix(".yaml") }.map { String($0.dropLast(5)) }
            .sorted()
    }()

    static func file(ofConversation name: String) -> GoldenFile {
        GoldenFile(
            "Tests/Fixtures/conversations/\(name).yaml",
            test: "ConversationTests/ScriptedConversationTests.swift")
    }

    /// The table of recordings.
    static func recordings() throws -> YAMLValue {
        try YAMLValue(
            parsing: String(contentsOf: folder.appending(path: "recordings.yaml"), encoding: .utf8))
    }
}
