// The type of a tidy rule. The rules themselves are in HouseRules and LayerRule.

import Testing

/// A place that breaks a rule.
struct Violation: CustomStringConvertible {
    let path: String
    /// From 1; 0 for the file as a whole.
    let line: Int
    let message: String

    var description: String { "\(path):\(line): \(message)" }
}

/// One rule, with samples that prove that it can fail.
struct TidyRule: Sendable, CustomTestStringConvertible {
    let name: String
    /// Files that the rule must refuse, each of them.
    let bad: [TextFile]
    /// Files that it must let pass: the near misses.
    let good: [TextFile]
    let check: @Sendable (TextFile) -> [Violation]

    var testDescription: String { name }
}

extension TidyRule {
    /// A rule that looks at lines one by one; `problem` returns what is wrong with a line.
    /// - Parameter words: one of them is in each text that breaks the rule. Few files have any, and the
    ///   lines of the others are not looked at.
    static func perLine(
        _ name: String, words: [String], bad: [TextFile], good: [TextFile],
        appliesTo: @escaping @Sendable (TextFile) -> Bool,
        lines: @escaping @Sendable (TextFile) -> String = { $0.text },
        problem: @escaping @Sendable (Substring) -> String?
    ) -> TidyRule {
        TidyRule(name: name, bad: bad, good: good) { file in
            let text = lines(file)
            guard appliesTo(file), words.contains(where: text.holds) else { return [] }
            return text.split(separator: "\n", omittingEmptySubsequences: false)
                .enumerated().compactMap { index, line in
                    problem(line).map {
                        Violation(path: file.path, line: index + 1, message: $0)
                    }
                }
        }
    }
}
