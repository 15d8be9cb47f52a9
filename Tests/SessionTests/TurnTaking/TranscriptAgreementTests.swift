// Which words of a growing transcript are shown, from made-up hypotheses.

import Testing

@testable import Session

/// What each hypothesis adds to what is shown; "-" for nothing.
private func deltas(_ hypotheses: [String], final: String? = nil) -> [String] {
    var agreement = TranscriptAgreement()
    var found = hypotheses.map { agreement.confirm($0) ?? "-" }
    if let final { found.append(agreement.finish(final) ?? "-") }
    return found
}

@Suite struct TranscriptAgreementTests {
    @Test func wordsAreShownOnceTwoHypothesesAgree() {
        #expect(
            deltas(["Go for", "Go forward ten", "Go forward ten meters", "Go forward ten meters."])
                == ["-", "Go", " forward", " ten"])
    }

    @Test func theLastWordOfAHypothesisIsNotTrusted() {
        #expect(deltas(["Stop", "Stop", "Stop"]) == ["-", "-", "-"])
    }

    @Test func punctuationMustAgreeToo() {
        #expect(
            deltas(["Had he married? No", "Had he married a more", "Had he married a more amiable"])
                == ["-", "Had he", " married a"])
    }

    /// The recogniser repeats itself where the audio cuts a word.
    @Test func loopsAreNotShown() {
        #expect(
            deltas([
                "leisure to consign, to consign, and to consign, and to",
                "leisure to consider how", "leisure to consider how much",
            ]) == ["-", "leisure to", " consider"])
    }

    @Test func aHypothesisThatContradictsWhatIsShownAddsNothing() {
        #expect(
            deltas(["I see a ship", "I see a ship there", "Icy a ship there now", "Icy a ship"])
                == ["-", "I see a", "-", "-"])
    }

    /// Also when two hypotheses agree on something else than what is shown.
    @Test func twoHypothesesThatContradictWhatIsShownAddNothing() {
        #expect(
            deltas(["I see a ship", "I see a ship", "Icy and cold it is", "Icy and cold it is"])
                == ["-", "I see a", "-", "-"])
    }

    @Test func aFinalTextWhoseWordOnlyBeginsLikeWhatIsShownAddsNoDelta() {
        #expect(
            deltas(["Go for it", "Go for it"], final: "Go forward ten meters.")
                == ["-", "Go for", "-"])
    }

    @Test func piecesOfTheFinalTextDoNotGoOnFromHypotheses() {
        var agreement = TranscriptAgreement()
        #expect(agreement.extend(by: "Go") == "Go" && agreement.extend(by: " on") == " on")
        #expect(agreement.shown == "Go on")
        var shown = TranscriptAgreement()
        _ = shown.confirm("Go for it")
        #expect(shown.confirm("Go for it") == "Go for")
        #expect(shown.extend(by: "Go") == nil && shown.shown == "Go for")
    }

    @Test func deltasAddUpToTheFinalText() {
        let final = "Go forward ten meters."
        let found = deltas(["Go forward now", "Go forward ten", "Go forward ten me"], final: final)
        #expect(found == ["-", "Go forward", "-", " ten meters."])
        #expect(found.filter { $0 != "-" }.joined() == final)
    }

    @Test(arguments: ["Go foreign lands.", "Went forward ten meters.", "", "Go"])
    func aFinalTextThatDisagreesAddsNoDelta(final: String) {
        #expect(
            deltas(["Go forward now", "Go forward ten"], final: final) == ["-", "Go forward", "-"])
    }

    @Test func withoutHypothesesTheFinalTextIsTheOnlyDelta() {
        #expect(deltas([], final: "Go forward.") == ["Go forward."])
        #expect(deltas([], final: "") == ["-"])
    }

    @Test func wordsThatDifferOnlyInTheirLettersBytesAreNotTorn() {
        // The same letter, composed and decomposed: equal as characters, not as bytes.
        #expect(
            deltas(["Caf\u{e9} ol\u{e9} now", "Caf\u{e9} ol\u{e9} then"], final: "Cafe\u{301} x")
                == ["-", "Caf\u{e9} ol\u{e9}", "-"])
    }
}
