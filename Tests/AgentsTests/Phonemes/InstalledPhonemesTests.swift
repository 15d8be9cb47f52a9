// Sentences with the real tables, where `make run` or `make test` has installed the natural voice. The
// expected phonemes are those of the voice's own front end; `make phoneme-table` compares thousands.

import Foundation
import Testing

@testable import Agents

private let folder = modelsDirectory + "/natural-voice"
private let isInstalled = FileManager.default.fileExists(
    atPath: "\(folder)/\(TaggerTable.fileName)")

@Suite(.enabled(if: isInstalled, "the natural voice is not installed"))
struct InstalledPhonemesTests {
    private static let phonemizer = Result { try Phonemizer(folder: folder) }

    @Test(arguments: [
        ("I read it yesterday.", "ˌI ɹˈɛd ɪt jˈɛstəɹdˌA."),
        ("I will read it.", "ˌI wɪl ɹˈid ɪt."),
        ("The wind blows; wind it up.", "ðə wˈɪnd blˈOz; wˈInd ɪt ˌʌp."),
        ("She shed a tear. Do not tear it.", "ʃˌi ʃˈɛd ɐ tˈɪɹ. dˈu nˌɑt tˈɛɹ ɪt."),
        ("He wound the wound.", "hˌi wˈWnd ðə wˈund."),
        ("Record a record.", "ɹəkˈɔɹd ɐ ɹˈɛkəɹd."),
        ("Please use it; the use of it.", "plˈiz jˈuz ɪt; ðə jˈus ʌv ɪt."),
        ("The contract will contract.", "ðə kˈɑntɹˌækt wɪl kəntɹˈækt."),
        ("They present the present.", "ðˌA pɹizˈɛnt ðə pɹˈɛzᵊnt."),
        ("She separates separate things.", "ʃˌi sˈɛpəɹˌAts sˈɛpəɹət θˈɪŋz."),
        ("I used to use it. He was used to it.", "ˌI jˈust tə jˈuz ɪt. hˌi wʌz jˈuzd tʊ ɪt."),
        ("Is that so? That is it.", "ˌɪz ðˈæt sˌO? ðˈæt ɪz ɪt."),
        ("an hour, a unit, the hour, the unit", "ɐn ˈWəɹ, ɐ jˈunət, ði ˈWəɹ, ðə jˈunət"),
        ("the FBI and NASA met", "ði ˌɛfbˌiˈI ænd nˈæsə mˈɛt"),
        ("STOP RIGHT NOW", "stˈɑp ɹˈIt nˈW"),
        ("Don't! She shouldn't, at two o'clock.", "dˈOnt! ʃˌi ʃˈʊdᵊnt, æt tˈu əklˈɑk."),
        ("well-known, state-of-the-art", "wˌɛlnˈOn, stˈAtʌvðiˈɑɹt"),
        ("McDonald's iPhone", "məkdˈɑnəldz ˈIfˌOn"),
        ("I am. Am I? I am here.", "ˌI æm. æm ˌI? ˌI ɐm hˈɪɹ."),
        ("At five P.M. we met the U.S. team.", "ˌæt fˈIv pˌiˈɛm wi mˈɛt ðə jˌuˈɛs tˈim."),
    ])
    func readsLikeTheVoicesOwnFrontEnd(text: String, sounds: String) throws {
        let clauses = try Self.phonemizer.get().clauses(of: text)
        #expect(clauses.joined(separator: " ") == sounds)
    }

    /// Every symbol that a text can give has a number in the voice's own table.
    @Test func everySymbolIsTheVoices() throws {
        let lines = try String(contentsOfFile: folder + "/symbols.txt", encoding: .utf8)
        let known = Set(
            lines.split(separator: "\n").compactMap {
                UInt32($0.prefix { $0 != " " }, radix: 16).flatMap(Unicode.Scalar.init)
            })
        let text = """
            The quick brown fox (a measure, vision; judge: church!) jumps over the lazy dog - and \
            Frodo's thing, water, button, about you. Why? Boys enjoy how the phone goes.
            """
        let clauses = try Self.phonemizer.get().clauses(of: text)
        #expect(clauses.count > 2)
        #expect(Set(clauses.joined().unicodeScalars).subtracting(known) == [])
    }
}
