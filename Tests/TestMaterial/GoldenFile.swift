// Stored files that tests compare with what the code makes: transcripts, conversations, and documents
// made from declarations. `UPDATE_GOLDEN=1 make unit T=…` writes them anew, and the diff is reviewed.

import Foundation

/// A stored file that must equal the text that a test makes.
package struct GoldenFile {
    /// Whether the tests write the files instead of comparing them.
    private static let isUpdating = ProcessInfo.processInfo.environment["UPDATE_GOLDEN"] == "1"

    /// The path from the root of the repository.
    package let path: String
    /// The test's file, as a module and a name: what `make unit` runs to write the file.
    private let test: String

    /// Names a file for a test, whose file is the caller's unless it is given.
    package init(_ path: String, test: String = #fileID) {
        self.path = path
        self.test = test
    }

    /// Where the file lies.
    package var url: URL {
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../\(path)")
            .standardized
    }

    /// The stored text.
    package func text() throws -> String { try String(contentsOf: url, encoding: .utf8) }

    /// What differs between the file and a text, with the command that writes the file anew; nil
    /// where they are equal, or where the text has been written.
    ///
    /// - Parameter stored: the file's text in the form in which the test makes its own, where other
    ///   texts mean the same.
    package func difference(from made: String, stored: String? = nil) throws -> String? {
        let stored = try stored ?? (FileManager.default.fileExists(atPath: url.path) ? text() : "")
        guard stored != made else { return nil }
        guard !Self.isUpdating else {
            try made.write(to: url, atomically: true, encoding: .utf8)
            print("written: \(path)")
            return nil
        }
        return report(stored: stored, made: made)
    }

    /// The command that writes the file anew, and the lines in which the texts differ.
    package func report(stored: String, made: String) -> String {
        let word = test.split(separator: "/").last?.split(separator: ".").first ?? ""
        return """
            \(path) differs (- the file, + the test); \
            `UPDATE_GOLDEN=1 make unit T=\(word)` writes it anew
            \(LineDifference(stored: stored, made: made))
            """
    }
}
