// One file of the repository as the tidy rules see it, and the walk that finds them all.
//
// Rules that look for words of the language read `code`. It keeps every line and column, and has
// blanks in place of comments and string literals. So a brace in a string, or a rule's own name in a
// comment, breaks no rule. The blanking is a scanner of a few states, not a parser.

import Foundation
import Glibc

/// A text file, its path relative to the repository, and its text in two forms.
struct TextFile: Sendable {
    let path: String
    let text: String
    /// The text with comments and string literals blanked; of a Swift file, else empty. Made once: all
    /// rules together took half a minute when each made its own.
    let code: String

    init(path: String, text: String) {
        self.path = path
        self.text = text
        code = path.hasSuffix(".swift") ? SwiftBlanking.blank(text) : ""
    }

    var lines: [Substring] {
        text.split(separator: "\n", omittingEmptySubsequences: false)
    }

    var isSwift: Bool { path.hasSuffix(".swift") }

    /// Whether the file lies in a folder, given from the root: `isIn("Sources/Codec")`.
    func isIn(_ folder: String) -> Bool { path.hasPrefix(folder + "/") }
}

extension StringProtocol {
    /// Whether a word occurs, byte by byte: `contains` takes a hundred times as long in a debug build.
    func holds(_ word: String) -> Bool {
        let found = utf8.withContiguousStorageIfAvailable { text in
            word.utf8.withContiguousStorageIfAvailable { Self.find($0, in: text) }
        }
        return (found ?? nil) ?? contains(word)
    }

    private static func find(
        _ word: UnsafeBufferPointer<UInt8>, in text: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard let wanted = word.baseAddress, var place = text.baseAddress else { return false }
        let end = place + text.count
        while end - place >= word.count,
            let found = memchr(place, Int32(word[0]), end - place - word.count + 1)
        {
            if memcmp(found, wanted, word.count) == 0 { return true }
            place = UnsafePointer(found.assumingMemoryBound(to: UInt8.self)) + 1
        }
        return false
    }
}

/// The files of the repository that people write.
enum Repository {
    /// Found from this file's own place, so that the tests run from any working directory.
    static let root: URL = {
        var url = URL(filePath: #filePath)
        for _ in 0..<3 { url.deleteLastPathComponent() }
        return url
    }()

    /// Folders that tools fill, at any depth; names that start with a dot are skipped as well,
    /// but for `visibleDotNames`.
    static let generatedFolders: Set<String> = ["models", "node_modules", "__pycache__"]

    static let visibleDotNames: Set<String> = [".ci", ".swift-format", ".gitignore"]

    /// Endings of files that are not text; they are checked for nothing but emptiness.
    static let binaryEndings: Set<String> = [
        "wav", "raw", "opus", "png", "ico", "onnx", "bin", "woff2",
    ]

    /// Every file, sorted by path so that failures read the same everywhere.
    static func files() throws -> [TextFile] { try found.get() }

    private static let found = Result {
        var found: [TextFile] = []
        try visit(root, prefix: "", into: &found)
        return found.sorted { $0.path < $1.path }
    }

    private static func visit(
        _ folder: URL, prefix: String, into found: inout [TextFile]
    ) throws {
        let entries = try FileManager.default.contentsOfDirectory(
            at: folder, includingPropertiesForKeys: [.isDirectoryKey, .isSymbolicLinkKey])
        for entry in entries {
            let name = entry.lastPathComponent
            let values = try entry.resourceValues(forKeys: [.isDirectoryKey, .isSymbolicLinkKey])
            guard !name.hasPrefix(".") || visibleDotNames.contains(name) else { continue }
            guard !generatedFolders.contains(name) else { continue }
            if values.isDirectory == true, values.isSymbolicLink != true {
                try visit(entry, prefix: prefix + name + "/", into: &found)
            } else if let text = try readableText(at: entry) {
                found.append(TextFile(path: prefix + name, text: text))
            }
        }
    }

    /// The text, or a stand-in that only says whether a binary file holds anything; nil for what
    /// is no file: a link to a folder, or a pipe, whose reading would not end.
    private static func readableText(at url: URL) throws -> String? {
        let file = url.resolvingSymlinksInPath()
        guard try file.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true
        else { return nil }
        let bytes = try Data(contentsOf: url)
        if binaryEndings.contains(url.pathExtension) { return bytes.isEmpty ? "" : "(binary)" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
