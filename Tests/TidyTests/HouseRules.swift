// The rules on functions, on comments and on what must not be written, each with the samples that
// prove it can fail. Words that a rule forbids are put together here from pieces, as this file
// is checked like any other.

extension TidyRule {
    static let all: [TidyRule] = [
        imports, functionLength, openingComment, noEmptyFile, noUnfinishedWork, noSleepInTests,
        noPathOfOneMachine, noRegistryHost, noTrailingSpace, exemptionsHaveFigures,
    ]

    // MARK: - Functions

    private static let maxFunctionLines = 70

    private static let functionLength = TidyRule(
        name: "functions have at most \(maxFunctionLines) lines",
        bad: [
            TextFile(path: "Sources/A.swift", text: sampleFunction(lines: 71)),
            TextFile(
                path: "Sources/A.swift",
                text: "struct A {\n" + sampleFunction(lines: 71, head: "init<T>() where T == Int")
                    + "}"),
        ],
        good: [
            TextFile(path: "Sources/A.swift", text: sampleFunction(lines: 70)),
            TextFile(
                path: "Sources/A.swift",
                text: "protocol P {\n    func a()\n}\n"
                    + String(repeating: "let a = 1\n", count: 80)),
        ]
    ) { file in
        guard file.isSwift else { return [] }
        return FunctionLengths.measure(file.code).filter { $0.lineCount > maxFunctionLines }
            .map { function in
                let message = "\(function.name) has \(function.lineCount) lines"
                return Violation(path: file.path, line: function.line, message: message)
            }
    }

    private static func sampleFunction(lines: Int, head: String = "func a(b: () -> Int = { 1 })")
        -> String
    {
        head + " {\n" + String(repeating: "    b() // {\n", count: lines - 2) + "}\n"
    }

    // MARK: - Comments and leftovers

    private static let openingComment = TidyRule(
        name: "Swift files open by saying what lives in them",
        bad: [
            TextFile(path: "Sources/Codec/A.swift", text: "import Glibc\n"),
            TextFile(path: "Tests/CodecTests/A.swift", text: "\n// Late.\n"),
        ],
        good: [
            TextFile(path: "Sources/Codec/A.swift", text: "// What lives here.\n"),
            TextFile(path: "Sources/Server/Resources/page.js", text: "let a\n"),
        ]
    ) { file in
        guard file.isSwift, !file.text.hasPrefix("//") else { return [] }
        return [Violation(path: file.path, line: 1, message: "no comment opens the file")]
    }

    private static let noEmptyFile = TidyRule(
        name: "no file is empty",
        bad: [
            TextFile(path: "Sources/Codec/A.swift", text: ""),
            TextFile(path: "docs/a.md", text: "\n\n"),
            TextFile(
                path: "Sources/Codec/A.swift", text: "// Only a comment, nothing lives here.\n"),
        ],
        good: [TextFile(path: "Sources/Codec/A.swift", text: "// A.\nlet a = 1\n")]
    ) { file in
        let content = file.isSwift ? file.code : file.text
        guard content.allSatisfy(\.isWhitespace) else { return [] }
        return [Violation(path: file.path, line: 0, message: "nothing in it")]
    }

    private static let noUnfinishedWork = perLine(
        "nothing is left to do later", words: unfinished,
        bad: [
            TextFile(path: "Sources/A.swift", text: "// TO" + "DO: all of it"),
            TextFile(path: "scripts/a.sh", text: "# FIX" + "ME"),
        ],
        good: [TextFile(path: "Sources/A.swift", text: "// Todos are kept as issues.")],
        appliesTo: { _ in true },
        problem: { line in unfinished.first { line.holds($0) } })

    private static let unfinished = ["TO" + "DO", "FIX" + "ME", "XX" + "X:"]

    private static let noTrailingSpace = perLine(
        "no line ends in a blank", words: [" ", "\t"],
        bad: [TextFile(path: "Makefile", text: "all: \n"), TextFile(path: "a.sh", text: "a\t")],
        good: [TextFile(path: "Makefile", text: "all:\n\n")],
        appliesTo: { !$0.path.hasSuffix(".md") && !$0.path.hasPrefix("Tests/Fixtures/") },
        problem: { $0.utf8.last == 32 || $0.utf8.last == 9 ? "ends in a blank" : nil })

    /// docs/decisions/0030-echo-path.md says how the figures are counted.
    private static let exemptionsHaveFigures = perLine(
        "what is exempt from the check for overlapping accesses says what the check would cost",
        words: ["@exclusivity"],
        bad: [
            TextFile(path: "Sources/A.swift", text: "    @exclusivity(unchecked) var a = 1"),
            TextFile(path: "Sources/A.swift", text: "@exclusivity(unchecked) var a = 1  // Fast."),
        ],
        good: [
            TextFile(
                path: "Sources/A.swift",
                text: "@exclusivity(unchecked) var a = 1  // 68 instructions an echo.")
        ],
        appliesTo: { $0.isSwift && $0.isIn("Sources") },
        problem: { line in
            guard line.holds("@exclusivity"), !line.contains(#/// [0-9,]+ instructions an? /#)
            else { return nil }
            return "an exemption without its figure"
        })

    // MARK: - Tests and places

    /// A test that waits by the clock is slow on every machine and wrong on a busy one.
    /// `.sleep(for:)` on an `AgentHost` is the virtual clock's and may stay.
    private static let noSleepInTests = perLine(
        "tests never sleep", words: ["sleep"],
        bad: [
            TextFile(path: "Tests/A/A.swift", text: "try await Task.sleep(for: .seconds(1))"),
            TextFile(path: "Tests/A/A.swift", text: "    usleep(10)"),
            TextFile(path: "Tests/A/A.swift", text: "_ = sleep(1)"),
            TextFile(path: "Tests/A/A.swift", text: "Thread.sleep(forTimeInterval: 1)"),
        ],
        good: [
            TextFile(path: "Tests/A/A.swift", text: "try await host.sleep(for: .seconds(1))"),
            TextFile(path: "Tests/A/A.swift", text: "func sleep(for duration: Duration) {}"),
            TextFile(path: "Tests/A/A.swift", text: "// Task.sleep would do."),
            TextFile(path: "Sources/A/A.swift", text: "usleep(10)"),
        ],
        appliesTo: { $0.isSwift && $0.isIn("Tests") },
        lines: { $0.code },
        problem: { line in
            let banned = #/\b(Task|Thread)\.sleep\b|\b[un]?(nano)?sleep\(/#
            let allowed = #/(\bfunc |[a-z]\.)sleep\(/#
            let named = #/\b(Task|Thread)\.sleep\b/#
            guard line.holds("sleep"), line.contains(banned) else { return nil }
            return line.contains(named) || !line.contains(allowed) ? "a sleep" : nil
        })

    private static let noPathOfOneMachine = perLine(
        "no path of one person's machine", words: places.map { "/\($0)/" },
        bad: [
            TextFile(path: "Makefile", text: "cp /ho" + "me/me/a b"),
            TextFile(path: "README.md", text: "see `/wo" + "rk/notes`"),
        ],
        good: [
            TextFile(path: "Makefile", text: "cp network/home/a b"),
            TextFile(path: "A.swift", text: "/usr/share/pocketsphinx"),
        ],
        appliesTo: { _ in true },
        problem: { line in
            guard places.contains(where: { line.holds("/\($0)/") }) else { return nil }
            let place = #/(?:^|[^\w.\/:*])\/(?:home|root|work|Users|opt)\//#
            return line.firstMatch(of: place).map { "a path: \($0.output)" }
        })

    private static let places = ["home", "root", "work", "Users", "opt"]

    /// Packages are named; where they come from is the user's configuration.
    private static let noRegistryHost = perLine(
        "no host of a package registry", words: registries,
        bad: [TextFile(path: "Makefile", text: "pip -i https://py" + "pi.org/simple")],
        good: [TextFile(path: "Makefile", text: "PyPI's packages")],
        appliesTo: { _ in true },
        problem: { line in registries.first { line.holds($0) } })

    private static let registries = [
        "py" + "pi.org", "python" + "hosted", "deb.deb" + "ian", "npm" + "js.org",
    ]
}
