// How patiently an answer is waited for, by the question, and by what is being said.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct PatienceJudgeTests {
    private func patience(
        after reply: String, _ language: String = "en", tools: [FunctionTool] = []
    ) -> Patience {
        PatienceJudge.patience(after: reply, in: .rules(for: language), tools: tools)
    }

    @Test(arguments: [
        ("en", "What is your phone number?"), ("en", "Sure. And your last name?"),
        ("en", "Could you spell that for me?"), ("en", "Please tell me your address."),
        ("en", "Can I have your e-mail?"), ("en", "What date works for you? Take your time."),
        ("en", "And your date of birth, please?"), ("de", "Wie lautet Ihre Telefonnummer?"),
        ("de", "Können Sie das bitte buchstabieren?"), ("de", "Nennen Sie mir Ihre Adresse."),
        ("fr", "Quel est votre numéro de téléphone ?"), ("fr", "Et votre adresse ?"),
        ("fr", "Pouvez-vous épeler votre nom ?"), ("es", "¿Cuál es su número de teléfono?"),
        ("es", "¿Me puede dar su dirección?"), ("it", "Qual è il suo numero di telefono?"),
        ("it", "Mi può dare il suo indirizzo?"), ("pt", "Qual é o seu número de telefone?"),
        ("pt", "Pode soletrar o seu nome?"), ("ru", "Какой у вас номер телефона?"),
        ("ru", "Назовите ваш адрес."),
    ])
    func detailsTakeLong(language: String, reply: String) {
        #expect(patience(after: reply, language) == .long)
    }

    @Test(arguments: [
        ("en", "Shall I book it?"), ("en", "I have a table at eight. Is that all right?"),
        ("en", "Is your number five five five?"), ("en", "Do you want a window seat?"),
        ("de", "Soll ich das buchen?"), ("de", "Ist das Ihre Adresse?"),
        ("fr", "Est-ce que cela vous convient ?"), ("es", "¿Quiere una mesa?"),
        ("it", "Vuole un tavolo?"), ("pt", "Quer uma mesa?"), ("ru", "Вам удобно в восемь?"),
    ])
    func yesOrNoIsBrief(language: String, reply: String) {
        #expect(patience(after: reply, language) == .brief)
    }

    @Test(arguments: [
        ("en", "We are open until nine."), ("en", "What would you like to know?"),
        ("en", "Would you like tea or coffee?"), ("en", "Your order number is 4711."),
        ("en", "Can you tell me more about it?"), ("en", ""), ("en", "..."),
        ("de", "Was kann ich für Sie tun?"), ("de", "Möchten Sie Tee oder Kaffee?"),
        ("fr", "Que puis-je faire pour vous ? Dites-moi tout."), ("ru", "Чем я могу помочь?"),
        // No rules: nothing is known of the question.
        ("nl", "Wilt u een tafel?"), ("nl", "Wat is uw telefoonnummer?"),
    ])
    func theRestIsUsual(language: String, reply: String) {
        #expect(patience(after: reply, language) == .usual)
    }

    @Test func onlyTheEndOfALongReplyCounts() {
        let story = String(repeating: "Once there was a number in a street. ", count: 500)
        #expect(patience(after: story + "Is that right?") == .brief)
        #expect(patience(after: "What is your number? " + story) == .usual)
    }

    @Test func aToolsRequiredTextIsAskedFor() {
        func tool(_ type: String, required: String = "car_vin") -> FunctionTool {
            FunctionTool(
                name: "find",
                parameters: RawJSON(
                    #"{"type":"object","properties":{"car_vin":\#(type)},"#
                        + #""required":["\#(required)"]}"#))
        }
        let question = "What is the VIN of the car?"
        #expect(patience(after: question) == .usual)
        #expect(patience(after: question, tools: [tool(#"{"type":"string"}"#)]) == .long)
        #expect(
            patience(after: question, tools: [tool(#"{"type":"string","enum":["a"]}"#)]) == .usual)
        #expect(patience(after: question, tools: [tool(#"{"type":"boolean"}"#)]) == .usual)
        #expect(
            patience(after: question, tools: [tool(#"{"type":"string"}"#, required: "b")])
                == .usual)
        #expect(
            patience(after: question, tools: [FunctionTool(name: "f", parameters: RawJSON("["))])
                == .usual)
    }

    @Test(arguments: [
        ("en", "My number is 33, 4"), ("en", "five five five"), ("en", "It's 555-0199."),
        ("en", "A N N"), ("en", "First the milk and then"), ("de", "null sechs"),
        ("de", "Erst links und dann"), ("fr", "zéro six"), ("fr", "et puis"),
        ("es", "veintidós tres"), ("it", "e poi"), ("ru", "двадцать два"),
    ])
    func isDictating(language: String, transcript: String) {
        #expect(PatienceJudge.isDictating(transcript, in: .rules(for: language)))
    }

    @Test(arguments: [
        ("en", "I have two"), ("en", "It was in 2019."), ("en", "Then I went home"), ("en", ""),
        ("en", "555 0199 is my number"), ("de", "Ich nehme zwei"),
    ])
    func isNotDictating(language: String, transcript: String) {
        #expect(!PatienceJudge.isDictating(transcript, in: .rules(for: language)))
    }
}

@Suite struct PatienceTests {
    /// How long after the end of the speech the turn ends, in ms.
    private func wait(
        after question: String, saying words: String,
        _ patience: TurnDetectionParameters.PatienceChoice? = nil
    ) throws -> Int {
        let script = ScriptedSession(
            {
                $0.outputModality = .text
                $0.transcription = TranscriptionParameters(model: "scripted")
                $0.turnDetection = TurnDetectionParameters(mode: .semanticVAD(eagerness: .auto))
                $0.turnDetection?.patience = patience
            }, voiceActivity: .installed, makesHypotheses: true)
        script.replies = [.text(question), .text("Thank you.")]
        script.hypothesis = { _ in words }
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 6_000), from: 1_000)
        script.run(until: 10_000)
        let line = try #require(script.lines("input_audio_buffer.committed").first)
        #expect(script.requests.count == 2)
        // The speech ends at 3,240 ms.
        return try #require(Int(line.dropFirst().prefix { $0 != "m" })) - 3_240
    }

    @Test func theTurnWaitsLongerAfterAQuestionForANumber() throws {
        let usual = try wait(after: "Hello.", saying: "It's blue.")
        let long = try wait(after: "What is your phone number?", saying: "It's blue.")
        let brief = try wait(after: "Shall I book it?", saying: "It's blue.")
        #expect(brief < usual && usual < long)
    }

    @Test func numbersWaitLongerWhateverWasAsked() throws {
        let one = try wait(after: "Hello.", saying: "I have four")
        let several = try wait(after: "Hello.", saying: "It is four four")
        #expect(one < several)
        #expect(try wait(after: "Hello.", saying: "It is four four", .usual) == one)
    }

    @Test func theSettingOverrulesTheQuestion() throws {
        let question = "What is your phone number?"
        let waits = try [.brief, .usual, .long].map {
            try wait(after: question, saying: "It's blue.", $0)
        }
        #expect(waits == waits.sorted() && Set(waits).count == 3)
        #expect(try wait(after: question, saying: "It's blue.", .auto) == waits[2])
    }
}
