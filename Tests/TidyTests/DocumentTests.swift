// Holds the documents to the repository: links and file names lead to files that exist. It does not
// judge what they say.

import Testing

@Suite("Documents")
struct DocumentTests {
    @Test("Every relative link of a document leads to a file, and to a heading where it names one")
    func linksLead() throws {
        let files = try Repository.files()
        #expect(DocumentLinks(files).broken == [])
    }

    @Test("Every source file that a document names exists")
    func namedFilesExist() throws {
        #expect(DocumentLinks(try Repository.files()).missingFiles == [])
    }

    @Test("Every fuzz target is run by script and tests, has a dictionary, and is described")
    func fuzzTargetsAreRun() throws {
        let files = try Repository.files()
        let texts = Dictionary(
            files.map { ($0.path, $0.text) }, uniquingKeysWith: { first, _ in first })
        let names = files.filter { $0.path.hasPrefix("Tests/Fuzz/") }
            .compactMap { $0.text.firstMatch(of: /static let name = "([a-z_]+)"/)?.1 }
        #expect(names.count > 8)
        let script = try #require(texts["scripts/fuzz.sh"])
        let words = script.split { !$0.isLetter && $0 != "_" }
        let tests = try #require(texts["Tests/FuzzTests/FuzzReplayTests.swift"])
        for name in names {
            #expect(words.contains(name), "scripts/fuzz.sh does not run \(name)")
            #expect(tests.contains("named: \"\(name)\""), "FuzzTests does not run \(name)")
            #expect(texts["Tests/Fuzz/Dictionaries/\(name).dict"] != nil)
            #expect(texts["docs/testing.md"]?.contains("| `\(name)` |") == true)
        }
    }

    @Test("The checks can fail")
    func checksCanFail() {
        let page = """
            # A `code` title: [one](b.md)
            [](docs/c.md) [](docs/none.md) [](b.md#second-part) [](b.md#third) [](b.md#mark) [](#a-code-title-one)
            ```
            [](nothing.md)
            ```
            <https://a.example> [](https://a.example/b.md)
            """
        let links = DocumentLinks([
            TextFile(path: "a.md", text: page),
            TextFile(path: "b.md", text: "## Second part\n```\n# third\n```\n<a id=\"mark\"></a>"),
            TextFile(path: "docs/c.md", text: "[](../b.md) [](b.md) [](../docs)"),
        ])
        #expect(links.broken == ["a.md: docs/none.md", "a.md: b.md#third", "docs/c.md: b.md"])
        let names = DocumentLinks([
            TextFile(
                path: "a.md", text: "`A.swift` `S/A.swift` `B.swift` `T/A.swift` `/etc/a.yaml`"),
            TextFile(path: "S/A.swift", text: ""),
        ])
        #expect(names.missingFiles == ["a.md: B.swift", "a.md: T/A.swift"])
    }
}

/// The links of Markdown files, as `[text](target)`.
private struct DocumentLinks {
    private let documents: [TextFile]
    /// Files and the folders that they lie in.
    private let paths: Set<String>
    /// The names of the headings of each document, as a forge makes them, and of its marked places
    /// (`<a id="…">`).
    private let headings: [String: Set<String>]

    init(_ files: [TextFile]) {
        documents = files.filter { $0.path.hasSuffix(".md") }
        var paths: Set<String> = []
        for file in files {
            var parts = file.path.split(separator: "/")
            while !parts.isEmpty {
                paths.insert(parts.joined(separator: "/"))
                parts.removeLast()
            }
        }
        self.paths = paths
        headings = Dictionary(
            uniqueKeysWithValues: documents.map { document in
                let titles = Self.prose(of: document).filter { $0.hasPrefix("#") }
                let marked = document.text.matches(of: /<a id="([a-z0-9-]+)">/).map { String($0.1) }
                return (document.path, Set(titles.map(Self.anchor)).union(marked))
            })
    }

    /// Links that lead nowhere, as `document: target`.
    var broken: [String] {
        documents.flatMap { document in
            Self.prose(of: document)
                .flatMap { $0.matches(of: #/\]\(([^)\s]+)\)/#).map { String($0.1) } }
                .filter { !$0.contains("://") && !leads($0, from: document.path) }
                .map { "\(document.path): \($0)" }
        }
    }

    /// Names of source files in code spans that are the end of no path, as `document: name`.
    var missingFiles: [String] {
        documents.flatMap { document -> [String] in
            let names: [Substring] = Self.prose(of: document).flatMap { line in
                line.matches(of: #/`([\w+][\w+.\/-]*\.(?:swift|py|sh|yaml))`/#).map(\.1)
            }
            let missing = names.filter { name in
                !paths.contains { $0 == name || $0.hasSuffix("/" + name) }
            }
            return missing.map { "\(document.path): \($0)" }
        }
    }

    private func leads(_ target: String, from document: String) -> Bool {
        let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0].isEmpty ? document : Self.resolve(parts[0], from: document)
        guard paths.contains(path) else { return false }
        return parts.count == 1 || headings[path]?.contains(String(parts[1])) == true
    }

    private static func resolve(_ target: Substring, from document: String) -> String {
        var folders = document.split(separator: "/").dropLast()
        for part in target.split(separator: "/") where part != "." {
            if part == ".." { _ = folders.popLast() } else { folders.append(part) }
        }
        return folders.joined(separator: "/")
    }

    /// The lines outside of fenced code.
    private static func prose(of document: TextFile) -> [Substring] {
        var isCode = false
        return document.lines.filter { line in
            let isFence = line.hasPrefix("```")
            if isFence { isCode.toggle() }
            return !isCode && !isFence
        }
    }

    /// `## What it is` → `what-it-is`.
    private static func anchor(of heading: Substring) -> String {
        let title = heading.drop { $0 == "#" || $0 == " " }
            .replacing(#/\]\([^)]*\)/#, with: "]").lowercased()
        return String(
            title.compactMap { character in
                if character == " " { return "-" }
                return character.isLetter || character.isNumber || "-_".contains(character)
                    ? character : nil
            })
    }
}
