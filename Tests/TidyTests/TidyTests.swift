// Holds the repository to its house rules, and the rules to their samples.

import Testing

@Suite("Tidy")
struct TidyTests {
    @Test("The repository keeps the rule", arguments: TidyRule.all)
    func repositoryKeeps(_ rule: TidyRule) throws {
        let files = try Repository.files()
        for violation in files.flatMap(rule.check) {
            Issue.record("\(violation)")
        }
    }

    @Test("The rule refuses its bad samples and no good one", arguments: TidyRule.all)
    func ruleCanFail(_ rule: TidyRule) {
        #expect(!rule.bad.isEmpty && !rule.good.isEmpty)
        for sample in rule.bad {
            #expect(!rule.check(sample).isEmpty, "let pass: \(sample.path): \(sample.text)")
        }
        for sample in rule.good {
            #expect(rule.check(sample).isEmpty, "refused: \(sample.path): \(sample.text)")
        }
    }

    /// A walk that finds nothing would let every rule pass.
    @Test("The walk finds the sources, and nothing that tools made")
    func walkFindsSources() throws {
        let paths = Set(try Repository.files().map(\.path))
        for expected in [
            "Package.swift", "Makefile", ".ci/run", "Sources/Codec/Bytes/ByteWriter.swift",
            "Sources/Server/Resources/index.html", "Tests/TidyTests/TidyTests.swift",
        ] {
            #expect(paths.contains(expected))
        }
        #expect(!paths.contains { $0.hasPrefix(".build") || $0.hasPrefix("models/") })
    }

    @Test(
        "Blanking keeps code and drops comments and strings",
        arguments: [
            (#"let a = "{" // }"#, #"let a = ~~~ ~~~~"#),
            (#"a("\(b("}")) {") }"#, #"a(~~~~~~~~~~~~~) }"#),
            (##"a(#"\("{"#) }"##, ##"a(~~~~~~~~) }"##),
            ("a /* { /* { */ } */ b", "a ~~~~~~~~~~~~~~~~~ b"),
            ("a \"\"\"\n{ \" }\n\"\"\" b", "a ~~~\n~~~~~\n~~~ b"),
            ("let q = \"open\n}", "let q = ~~~~~\n}"),
        ])
    func blanking(source: String, expected: String) {
        let blanked = expected.replacing("~", with: " ")
        #expect(SwiftBlanking.blank(source) == blanked)
    }

    @Test("Function lengths count from the declaration to its closing brace")
    func functionLengths() {
        let code = """
            protocol P {
                func required()
                subscript(index: Int) -> Int { get }
            }
            struct S {
                init<T>(_ a: T, b: [Int] = [1])
                where T: Sequence {
                    func nested() {}
                }
                func wrapped(
                    body: () -> Void
                ) async throws(E) -> Int {
                    self.init()
                    return 1
                }
            }
            """
        let expected = [
            FunctionLength(line: 3, name: "subscript", lineCount: 1),
            FunctionLength(line: 6, name: "init", lineCount: 4),
            FunctionLength(line: 8, name: "nested", lineCount: 1),
            FunctionLength(line: 10, name: "wrapped", lineCount: 6),
        ]
        #expect(FunctionLengths.measure(code) == expected)
    }
}
