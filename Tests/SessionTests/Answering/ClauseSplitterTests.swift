// Where a reply is cut into clauses.

import Testing

@testable import Session

/// Splits a text that arrives in pieces of `size` characters.
private func clauses(_ text: String, size: Int) -> [String] {
    var splitter = ClauseSplitter(.english)
    var found: [String] = []
    var rest = Substring(text)
    while !rest.isEmpty {
        found += splitter.append(String(rest.prefix(size)))
        rest = rest.dropFirst(size)
    }
    if let last = splitter.finish() { found.append(last) }
    return found
}

/// Requires these clauses however the text comes.
private func expect(
    _ expected: [String], sourceLocation: SourceLocation = #_sourceLocation
) {
    let text = expected.joined()
    for size in [1, 2, 3, 7, 1_000] {
        #expect(clauses(text, size: size) == expected, sourceLocation: sourceLocation)
    }
}

@Suite struct ClauseSplitterTests {
    @Test(arguments: [
        ["Hello there, my friend.", " How are you today?"],
        ["Yes. Of course.", " I will do that."],
        ["one line of text\n", "and another line"],
        ["no end"],
        // Twelve bytes are a sentence, eleven are not.
        ["It is a day.", " And a night"], ["It is days. Is it now?"],
    ])
    func cutsWhereAVoiceWouldPause(expected: [String]) { expect(expected) }

    @Test(arguments: [
        ["Ask Dr. Jane M. Smith about it.", " She knows."],
        ["Fruit, e.g. apples or i.e. pears vs. plums etc. is fine.", " Thanks a lot."],
        ["It opens at 9 a.m. in the U.S. on Sat.", " and then again."],
        ["The company is Smith & Co. of Leeds."],
        ["It is so late, and so do I.", " Then we went home."],
        ["It was \"Dr. No\" who said \"Mr. Bond\" first.", " I saw it."],
    ])
    func anAbbreviationEndsNothing(expected: [String]) { expect(expected) }

    @Test(arguments: [
        ["Version 3.5 is at 10:30 sharp,", " isn't it? Good."],
        ["It costs $1,234.56 or 3,5 percent.", " That is all."],
        ["See https://example.com/a.b?c=d for more.", " Mail me@example.com then."],
        ["It was built in 1984.", " Nobody lives there."],
        ["We are open until 12.", " Then we close."],
    ])
    func aMarkInsideAWordEndsNothing(expected: [String]) { expect(expected) }

    @Test(arguments: [
        ["He said \"Stop right there.\"", " Then he left (for good).", " That was all."],
        ["“We will see about that.”", " She smiled a little."],
        ["**It really is very important!**", " Do not forget it."],
        ["Are you really sure?!", " I am not sure..."],
        ["Well, I am not sure...", " perhaps we will…", " go there later."],
    ])
    func whatAMarkClosesBelongsToIt(expected: [String]) { expect(expected) }

    @Test(arguments: [
        ["1. Wash the apples\n", "2. Peel the apples\n", "3. Eat the apples"],
        ["- red apples are good\n", "- green ones are sour\n"],
    ])
    func anItemOfAListIsAClause(expected: [String]) { expect(expected) }

    @Test(arguments: [
        // A lone word, however long, is not cut off.
        ["Congratulations! You won.", " Take it home now."],
        ["Unfortunately, I cannot do that,", " but you can."],
        ["Great! 🎉🎉🎉🎉 Let us begin.", " Now then, we go."],
    ])
    func theFirstClauseIsShortButNoLoneWord(expected: [String]) { expect(expected) }

    @Test func theFirstClauseEndsBeforeAConjunctionWhenItGrowsLong() {
        expect([
            "The weather in the mountains is going to be pleasant",
            " because a warm wind comes from the south and stays for a while.",
        ])
    }

    @Test func laterClausesGoOnPastCommasUntilTheyAreLong() {
        let long = String(repeating: " and on it goes,", count: 8)
        expect(["This comes first of all.", long, " as ever."])
        expect(["This comes first of all.", " Here is one, and two, and three, and four."])
    }

    @Test(arguments: [
        ["これはペンです。", "あれは何ですか？", "はい"],
        ["彼は「行きましょう。」", "と言いました。", "そして去った。"],
        ["今天天气很好我们去公园吧，", "然后去吃饭。", "你觉得怎么样？"],
    ])
    func fullWidthMarksNeedNoSpace(expected: [String]) { expect(expected) }

    @Test func aBlockOfCodeIsKeptWhole() {
        expect([
            "Use this short piece of code:",
            "\n```swift\nlet a = 1; \nprint(a). \n```\nThat is it.",
            " It prints one.",
        ])
    }

    @Test func anEndlessBlockOfCodeIsCut() {
        let text = "```\n" + String(repeating: "let a = b;\n", count: 4_000)
        let found = clauses(text, size: 100)
        #expect(found.joined() == text)
        #expect(found.allSatisfy { $0.utf8.count <= ClauseSplitter.maxCodeBytes + 300 })
    }

    @Test(arguments: ["", "   \n "])
    func nothingIsNoClause(text: String) { #expect(clauses(text, size: 1) == []) }

    @Test func textWithoutMarksIsCutAtASpaceBeforeItGrowsTooLong() {
        let text = String(repeating: "word ", count: 200)
        let found = clauses(text, size: 11)
        #expect(found.joined() == text)
        #expect(found.allSatisfy { $0.utf8.count <= ClauseSplitter.maxClauseBytes + 5 })
    }

    @Test func textWithoutSpacesIsCutBetweenCharacters() {
        let text = String(repeating: "語", count: 1_000)
        let found = clauses(text, size: 7)
        #expect(found.count > 3)
        #expect(found.joined() == text)
        #expect(!found.joined().contains("\u{FFFD}"))
    }

    @Test func nothingIsLost() {
        let text = "Über allen Gipfeln ist Ruh; in allen Wipfeln spürest du… kaum einen Hauch! 🎉 "
        #expect(clauses(text, size: 1).joined() == text)
    }

    @Test(arguments: [
        "This is the end.", "This is the end!", "Is this the end?\"", "This is it…", "これで終わりです。",
        "Well, that would be very nice,", "It was **the end.**",
    ])
    func aMarkBehindWhichNothingFollowsMayEndAClause(text: String) {
        var splitter = ClauseSplitter(.english)
        #expect(splitter.append(text) == [])
        #expect(splitter.endingPause == ClauseSplitter.pauseMilliseconds)
        let clause = splitter.takeAtMark()
        #expect(clause == text)
        let next = splitter.append(" And here the next one is. ")
        #expect(next == [" And here the next one is."])
    }

    @Test(arguments: [
        "Version 3.", "It costs more than $10,", "It opens at 10:", "Yes.", "1,", " 2, ",
        "4, 7, 1,",
        "- Milk\n", "Well, ", "(\"No,\") ", "Хорошо, ", "好，", "Now:",
    ])
    func aShortClauseOrANumberEndsAfterALongerPause(text: String) {
        var splitter = ClauseSplitter(.english)
        #expect(splitter.append(text) == [])
        #expect(splitter.endingPause == ClauseSplitter.longPauseMilliseconds)
        let clause = splitter.takeAtMark()
        #expect(clause == text)
    }

    @Test(arguments: [
        "You should ask Dr.", "and then", "It is said that", "```let end = theEnd.",
        "It comes from J.", "1. ", ", ", "!",
    ])
    func whatEndsWithNoMarkOrHasNoWordDoesNot(text: String) {
        var splitter = ClauseSplitter(.english)
        #expect(splitter.append(text) == [])
        #expect(splitter.endingPause == nil)
        let clause = splitter.takeAtMark()
        #expect(clause == nil)
        #expect(splitter.finish() == text)
    }
}
