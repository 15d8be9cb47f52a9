// Holds the walls between the folders of Session, and of Server: a folder names only types of folders that
// ARCHITECTURE.md shows on the lines above its own. So no folders form a cycle, and a reader of one knows what
// it may touch.
//
// A file that extends VoiceSession, or Shard, conducts: it joins parts, and may name all of them. So do the
// files that compose a session or a server. No other file names what they declare.

import Testing

@Suite("Arrows between folders")
struct ArrowTests {
    private static let layer = "Sources/Server"

    @Test("A folder names only folders above it", arguments: ["Session", "Server"])
    func arrowsPointUp(layer: String) throws {
        let files = try Repository.files()
        let document = try #require(files.first { $0.path == "ARCHITECTURE.md" })
        let levels = try #require(FolderLevels(of: layer, in: document.text))
        let sources = files.filter { $0.isSwift && $0.isIn("Sources/\(layer)") }
        #expect(sources.count > 100)
        for violation in Arrows(sources, in: "Sources/\(layer)").violations(of: levels) {
            Issue.record("\(violation)")
        }
    }

    /// What has no session in it may know the ports, which both sides of them see, and the form of a
    /// setting, and no more.
    @Test(
        "The folders below sessions name nothing of Session but its ports",
        arguments: ["Loop", "Memory", "Workers", "Upstream", "Redis", "TLS"])
    func loopKnowsNoSession(folder: String) throws {
        let files = try Repository.files().filter(\.isSwift)
        let types = Arrows(files.filter { $0.isIn("Sources/Session") }, in: "Sources/Session")
        let parts = files.filter { $0.isIn("\(Self.layer)/\(folder)") && !$0.conducts }
        #expect(!parts.isEmpty)
        for file in parts {
            for name in file.namedTypes where name != "Setting" {
                guard let place = types.folder(of: name) else { continue }
                #expect(place == "Ports", "\(file.path) names \(name) of Session/\(place)")
            }
        }
    }

    @Test("The checks can fail")
    func checksCanFail() throws {
        func file(_ path: String, _ text: String) -> TextFile {
            TextFile(path: "Sources/Server/\(path)", text: text)
        }
        let levels = try #require(
            FolderLevels(
                of: "Server",
                in:
                    "```tree\nCodec/   A/\nServer/   rule\n          A/ (what)\n          B/ C/\n```"
            ))
        let below = file("A/Low.swift", "struct Low {}\nprivate struct Own {}\n")
        let high = file("B/High.swift", "struct High { let low: Low }\n")
        func violations(_ more: TextFile) -> Int {
            Arrows([below, high, more], in: Self.layer).violations(of: levels).count
        }
        #expect(violations(file("A/Other.swift", "// High\nlet a = \"High\"; let b: Low?\n")) == 0)
        #expect(violations(file("A/Other.swift", "let a: High?\n")) == 1)
        #expect(violations(file("C/Other.swift", "let a: High?\n")) == 1, "one line is one level")
        #expect(
            violations(file("A/Other.swift", "extension Shard { var a: High? { nil } }\n")) == 0)
        #expect(violations(file("D/Other.swift", "let a = 1\n")) == 1, "a folder without a line")
        let conductor = file("A/ShardA.swift", "extension Shard {}\nstruct Step {}\n")
        let named = Arrows([below, conductor, file("B/B.swift", "let a: Step?\n")], in: Self.layer)
        #expect(named.violations(of: levels).count == 1, "parts know no conductor")
        #expect(FolderLevels(of: "Server", in: "no tree") == nil)
    }
}

/// The lines of the tree of ARCHITECTURE.md on which the folders of a layer stand.
private struct FolderLevels {
    private var lines: [String: Int] = [:]

    init?(of layer: String, in document: String) {
        let lines = document.split(separator: "\n", omittingEmptySubsequences: false)
        guard let start = lines.firstIndex(of: "```tree"),
            let first = lines[start...].firstIndex(where: { $0.hasPrefix(layer + "/") }),
            let end = lines[(first + 1)...].firstIndex(where: { $0.first != " " })
        else { return nil }
        for (level, line) in lines[first..<end].enumerated() {
            for word in line.split(separator: " ") where word.hasSuffix("/") {
                self.lines[String(word.dropLast())] = level
            }
        }
    }

    /// The line of a folder, from the top; nil: it has none.
    subscript(folder: String) -> Int? { lines[folder] }
}

/// Which files of a layer name which types of it.
private struct Arrows {
    private let layer: String
    private let files: [TextFile]
    /// The file that declares each type that others can name.
    private var declarations: [String: TextFile] = [:]

    init(_ files: [TextFile], in layer: String) {
        self.layer = layer
        self.files = files
        for file in files {
            for type in file.declaredTypes { declarations[type] = file }
        }
    }

    /// The folder of the file that declares a type; nil: none does.
    func folder(of type: String) -> String? { declarations[type].map(folder(of:)) }

    private func folder(of file: TextFile) -> String {
        let path = file.path.dropFirst(layer.count + 1)
        return path.contains("/") ? String(path.prefix { $0 != "/" }) : ""
    }

    func violations(of levels: FolderLevels) -> [Violation] {
        files.filter { !$0.conducts }.flatMap { file in
            let folder = folder(of: file)
            guard let level = levels[folder] else {
                return [file.violation("\(folder)/ has no line in the tree of ARCHITECTURE.md")]
            }
            return file.namedTypes.compactMap { type in
                guard let other = declarations[type], other.path != file.path else { return nil }
                let place = self.folder(of: other)
                if other.conducts {
                    return file.violation("\(type) is of \(other.path), which conducts")
                }
                guard place != folder, levels[place] ?? .max >= level else { return nil }
                return file.violation("\(type) is of \(place)/, which is not above \(folder)/")
            }
        }
    }
}

extension TextFile {
    /// Files that compose a session or a server of its parts, beside those that extend VoiceSession or Shard.
    private static let composers: Set = [
        "VoiceSession.swift",
        "Shard.swift", "ShardParts.swift", "ShardServices.swift", "ShardCommands.swift",
        "ParleyServer.swift",
    ]

    /// Whether the file joins parts, and may name all of them.
    fileprivate var conducts: Bool {
        Self.composers.contains(path.split(separator: "/").last.map(String.init) ?? "")
            || code.split(separator: "\n").contains { line in
                ["Shard ", "VoiceSession ", "VoiceSession:"].contains {
                    line.hasPrefix("extension \($0)")
                }
            }
    }

    /// The types that it declares for other files, at the left margin.
    fileprivate var declaredTypes: [String] {
        let kinds: Set<Substring> = ["class", "struct", "enum", "protocol", "typealias"]
        let modifiers: Set<Substring> = ["public", "package", "final", "indirect"]
        return code.split(separator: "\n").compactMap { line in
            guard line.first != " " else { return nil }
            let words = line.split(separator: " ")
                .drop { modifiers.contains($0) || $0.hasPrefix("@") }
            guard words.count > 1, let kind = words.first, kinds.contains(kind) else { return nil }
            return String(words[words.startIndex + 1].prefix { $0.isLetter || $0.isNumber })
        }
    }

    /// The words of its code that could name a type.
    fileprivate var namedTypes: [String] {
        let words = code.split { !($0.isLetter || $0.isNumber || $0 == "_") }
        return Set(words.filter { $0.first?.isUppercase == true }.map(String.init)).sorted()
    }

    fileprivate func violation(_ message: String) -> Violation {
        Violation(path: path, line: 0, message: message)
    }
}
