// What a failed comparison with a stored file shows: a short diff, and the command that writes the
// file anew.

import TestMaterial
import Testing

@Suite struct GoldenFileTests {
    private func text(_ lines: some Sequence<Int>) -> String {
        lines.map { "\($0)\n" }.joined()
    }

    @Test func aDifferenceHasItsLineAndTheLinesAroundIt() {
        let made = text(1..<5) + "five\n" + text(6..<41) + text([41, 41, 42])
        #expect(
            LineDifference(stored: text(1..<43), made: made).description == """
                @@ line 3 @@
                  3
                  4
                - 5
                + five
                  6
                  7
                @@ line 39 @@
                  39
                  40
                + 41
                  41
                  42
                """)
    }

    @Test func endsThatDifferAreShown() {
        #expect(
            LineDifference(stored: "a\nb", made: "b\nc\n").description == """
                @@ line 1 @@
                - a
                  b
                + c
                + \("")
                """)
    }

    /// The smaller number of lines is compared, the larger is taken as replaced.
    @Test(arguments: [30, 5_000])
    func whatIsBeyondTwentyLinesIsCounted(lines: Int) {
        let stored = text(0..<lines)
        let made = text(lines..<2 * lines)
        let shown = LineDifference(stored: stored, made: made).description.split(separator: "\n")
        #expect(shown.count == LineDifference.limit + 1)
        #expect(shown[0] == "@@ line 1 @@" && shown[1] == "- 0" && shown[19] == "- 18")
        #expect(shown[20] == "… \(2 * lines - 19) further lines differ")
    }

    @Test func manyPartsAreShownUpToTheLimit() {
        let stored = text(0..<200)
        let made = text((0..<200).lazy.filter { $0 % 10 != 5 })
        let shown = LineDifference(stored: stored, made: made).description.split(separator: "\n")
        #expect(shown.count <= LineDifference.limit + 1)
        #expect(shown.last == "… 17 further lines differ")
    }

    @Test func theCommandThatWritesAnewIsNamed() throws {
        let file = GoldenFile("Tests/Fixtures/transcripts/text-turn.transcript")
        let stored = try file.text()
        #expect(try file.difference(from: stored) == nil)
        #expect(try file.difference(from: "x", stored: "x") == nil)
        // Not `difference`, which would write the text under UPDATE_GOLDEN=1.
        let lines = file.report(stored: stored, made: stored + "more\n").split(separator: "\n")
        #expect(lines[0].hasPrefix("Tests/Fixtures/transcripts/text-turn.transcript differs"))
        #expect(lines[0].contains("`UPDATE_GOLDEN=1 make unit T=GoldenFileTests`"))
        #expect(lines.contains("+ more"))
    }
}
