// The language of a session: named by its client, or heard and settled. And what the session does with
// it: recognition, words, voices.

import Codec
import Testing

@testable import Session

@Suite struct HeardLanguageTests {
    @Test func staysOnceEnoughWasSaid() {
        var language = HeardLanguage()
        #expect(language.newest == nil && language.settled == nil)
        language.settle(words: 9, milliseconds: 9_000)
        #expect(language.settled == nil)
        language.hear("es")
        language.settle(words: 4, milliseconds: 1_999)
        #expect(language.newest == "es" && language.settled == nil)
        language.hear(nil)
        language.hear("fr-CA")
        language.settle(words: 5, milliseconds: 0)
        #expect(language.settled == "fr")
        language.hear("de")
        #expect(language.newest == "fr" && language.settled == "fr")
    }

    @Test func secondsOfSpeechSettleIt() {
        var language = HeardLanguage()
        language.hear("ja")
        language.settle(words: 1, milliseconds: 2_000)
        #expect(language.settled == "ja")
    }

    @Test(arguments: ["", "e", "haw", "e1", "é", "zz"])
    func keepsOnlyCodesOfTwoLetters(code: String) {
        var language = HeardLanguage()
        language.hear(code)
        #expect(language.newest == (code == "zz" ? "zz" : nil))
    }

    @Test func isTwoBytes() {
        #expect(MemoryLayout<HeardLanguage>.size == 2)
        var language = HeardLanguage()
        language.settle()
        #expect(language.settled == nil)
        language.hear("az")
        language.settle()
        #expect(language.settled == "az")
    }

    // MARK: In a session

    private static let french = "Bonjour, je voudrais une chambre."

    /// A session whose client ends its turns.
    /// - Parameters:
    ///   - language: in which everything is heard.
    ///   - named: by the client.
    private func script(
        in language: String?, named: String? = nil, voiceLanguages: [String]? = nil
    ) -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.turnDetection = nil
                $0.transcription = TranscriptionParameters(language: named)
            }, voiceLanguages: voiceLanguages)
        script.heardLanguage = language
        return script
    }

    /// The user says something, and is answered once the words are known. A second of audio, and 20 s
    /// until the reply is over.
    private func say(_ text: String, _ script: ScriptedSession, at milliseconds: Int) {
        script.transcripts.append(.success(text))
        script.append([UInt8](repeating: 0, count: 48_000), at: milliseconds)
        script.send(.inputAudioBufferCommit, at: milliseconds)
        script.send(.responseCreate(ResponseParameters()), at: milliseconds + 1_000)
        script.run(until: milliseconds + 20_000)
    }

    /// The responses that are over.
    private func responses(_ script: ScriptedSession) -> [[String: Any]] {
        script.events.filter { $0["type"] as? String == "response.done" }
            .compactMap { $0["response"] as? [String: Any] }
    }

    /// The languages that the responses say no voice speaks.
    private func unspoken(_ script: ScriptedSession) -> [String?] {
        responses(script).map { ($0["metadata"] as? [String: String])?["parley_no_voice"] }
    }

    @Test func theSessionSettlesItsLanguageOnceAndKeepsIt() throws {
        let script = script(in: "es")
        // The same reply again would come from the cache of phrases.
        script.replies = ["One.", "Two.", "Three."].map { .text($0) }
        say("Sí.", script, at: 0)
        #expect(script.session.language == nil && script.session.heardLanguage.newest == "es")
        script.heardLanguage = "fr"
        say(Self.french, script, at: 30_000)
        #expect(script.session.language == "fr")
        script.heardLanguage = "en"
        say("OK.", script, at: 60_000)
        #expect(script.askedLanguages == [nil, nil, "fr"])
        #expect(script.spokenLanguages == [nil, "fr", "fr"])
        #expect(script.session.languageRules === LanguageRules.rules(for: "fr"))
        #expect(unspoken(script) == [nil, nil, nil], "an unknown voice may speak all")
        #expect(try script.save().language == "fr")
    }

    @Test func soundsWithoutWordsSettleNothing() {
        let script = script(in: "fr")
        script.transcripts.append(.success("[Musique]"))
        script.append([UInt8](repeating: 0, count: 48_000 * 3), at: 0)
        script.send(.inputAudioBufferCommit, at: 0)
        script.run(until: 5_000)
        #expect(script.session.language == nil && script.session.heardLanguage.newest == nil)
    }

    @Test func aLanguageThatTheClientTakesBackIsFoundOutAnew() throws {
        let script = script(in: "fr", named: "fr")
        say(Self.french, script, at: 0)
        #expect(script.session.language == "fr")
        script.send(
            #"{"type":"session.update","session":{"type":"realtime","audio":{"input":"#
                + #"{"transcription":{"model":"m"}}}}}"#, at: 30_000)
        script.run(until: 31_000)
        #expect(script.session.language == nil)
    }

    @Test func beforeAnyWordsTheExpectedLanguageHasTheRules() {
        let script = ScriptedSession({ $0.turnDetection = nil }, expectedLanguage: "fr")
        #expect(script.session.languageRules === LanguageRules.rules(for: "fr"))
        #expect(script.session.language == nil)
        script.heardLanguage = "es"
        say("Sí.", script, at: 0)
        #expect(script.session.languageRules === LanguageRules.rules(for: "es"))
    }

    @Test func theClientsLanguageCounts() {
        let script = script(in: "fr", named: "it")
        say(Self.french, script, at: 0)
        #expect(script.session.language == "it")
        #expect(script.askedLanguages == ["it"] && script.spokenLanguages == ["it"])
        #expect(script.session.languageRules === LanguageRules.rules(for: "it"))
    }

    @Test func aRecogniserThatTellsNoLanguageChangesNothing() {
        let script = script(in: nil, voiceLanguages: ["en"])
        say("Good morning, a room for two, please.", script, at: 0)
        #expect(script.session.language == nil && script.spokenLanguages == [nil])
        #expect(script.session.languageRules === LanguageRules.english)
    }

    @Test func anotherProcessGoesOnInTheLanguage() throws {
        let script = script(in: "fr")
        say(Self.french, script, at: 0)
        let restored = try ScriptedSession(restoring: try script.save())
        #expect(restored.session.language == "fr")
        let other = self.script(in: nil)
        #expect(try other.save().language == nil)
    }

    @Test func repliesAreTextWhereNoVoiceSpeaksTheLanguage() throws {
        let script = script(in: "fr", voiceLanguages: ["en"])
        say("Bonjour.", script, at: 0)
        #expect(script.spoken == ["Yes."], "one word does not settle the language")
        say(Self.french, script, at: 30_000)
        say("Merci.", script, at: 60_000)
        #expect(script.spoken == ["Yes."])
        #expect(unspoken(script) == [nil, "fr", "fr"])
        let modalities = responses(script).compactMap { $0["output_modalities"] as? [String] }
        #expect(modalities == [["audio"], ["text"], ["text"]])
        #expect(script.violations.isEmpty)
        #expect(
            script.events.contains {
                $0["type"] as? String == "response.output_text.done"
                    && $0["text"] as? String == "Yes."
            })
    }

    @Test func theClientsMetadataStays() throws {
        let script = script(in: nil, named: "fr", voiceLanguages: ["en"])
        var parameters = ResponseParameters()
        parameters.metadata = RawJSON(#"{"mine":"1"}"#)
        script.send(.responseCreate(parameters), at: 0)
        script.run(until: 5_000)
        let response = try #require(responses(script).first)
        #expect(response["metadata"] as? [String: String] == ["mine": "1"])
        #expect(response["output_modalities"] as? [String] == ["text"])
    }

    @Test func aVoiceThatSpeaksTheLanguageSpeaks() {
        let script = script(in: nil, named: "fr-CA", voiceLanguages: ["en", "fr"])
        say(Self.french, script, at: 0)
        #expect(script.spoken == ["Yes."] && unspoken(script) == [nil])
    }

    @Test func aResponseOutsideTheConversationIsSpoken() {
        let script = script(in: nil, named: "fr", voiceLanguages: ["en"])
        script.send(#"{"type":"response.create","response":{"conversation":"none"}}"#, at: 0)
        script.run(until: 5_000)
        #expect(script.spoken == ["Yes."] && unspoken(script) == [nil])
    }

    @Test func aTelephoneIsNeverMute() {
        let script = script(in: nil, named: "fr", voiceLanguages: ["en"])
        script.session.playbackControl = .drops
        say(Self.french, script, at: 0)
        #expect(script.spoken == ["Yes."] && unspoken(script) == [nil])
    }
}
