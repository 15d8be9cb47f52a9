// What the guide understands: real phrasings, and what the recogniser makes of them.

import Testing

@testable import Agents

@Suite struct GuideIntentTests {
    private typealias Phrases = [String]

    private func expect(_ intent: GuideIntent, of phrases: Phrases) {
        for phrase in phrases { #expect(GuideIntent(of: phrase) == intent, "\(phrase)") }
    }

    @Test func questionsForOpenSessions() {
        expect(
            .sessions,
            of: [
                "How many sessions are open?", "how many sessions",
                "How many sessions do you have?",
                "And how many other sessions are there?", "Count the open sessions.",
                "What is the number of sessions?", "How many cessions are open?",
                "How many sections are open right now?", "How many people are talking to you?",
                "How many users are connected?", "Is anyone else here?",
            ])
    }

    @Test func questionsForMemory() {
        expect(
            .memory,
            of: [
                "How much memory do you use?", "How much memory does this session take?",
                "how much RAM are you using", "What is the memory of this session?",
                "How many bytes do you need?", "How big are you?",
                "How much memory do the sessions need?",
            ])
    }

    @Test func questionsForLatency() {
        expect(
            .latency,
            of: [
                "How long did that take?", "How long did your last answer take?",
                "How fast was that reply?", "What was the latency?", "How fast are you?",
                "How quickly did you respond?", "how much time did that take",
                "How long was the delay?", "And how many milliseconds was that?",
                "How long did I have to wait?", "How long did the last turn take?",
            ])
    }

    @Test func questionsForLanguages() {
        expect(
            .languages,
            of: [
                "In which languages?", "What languages do you speak?",
                "Which languages do you understand?", "How many languages do you know?",
                "Do you speak French?", "Can you understand German?",
                "Can I speak another language? Which?",
            ])
        expect(.identity, of: ["Which language model are you?"])
        for other in ["What programming language are you written in?", "I like languages."] {
            #expect(GuideIntent(of: other) != .languages, "\(other)")
        }
    }

    @Test func questionsForTheTime() {
        expect(
            .time,
            of: [
                "What time is it?", "What's the time?", "what’s the time", "Tell me the time.",
                "Do you have the time?", "What day is it?", "What's today's date?",
            ])
    }

    @Test func questionsAboutTheAgent() {
        expect(
            .identity,
            of: [
                "What are you?", "Who are you?", "What's your name?", "Are you a robot?",
                "Are you real?", "Tell me about yourself.", "Who am I talking to?",
                "What model are you?", "Which language model do you use?", "Are you ChatGPT?",
            ])
        expect(
            .maker, of: ["Who made you?", "Who built this?", "Who wrote Parley?", "Who made you"])
        expect(
            .abilities,
            of: [
                "What can you do?", "What can I ask you?", "Help!", "What do you do?",
                "Can you help me?", "What else can you do?",
            ])
        expect(.interruption, of: ["Can I interrupt you?", "What happens when I interrupt you?"])
    }

    @Test func questionsAboutParley() {
        expect(
            .parley,
            of: [
                "What is Parley?", "What is parlay?", "What's barley?", "Tell me about Parley.",
                "How does Parley work?", "Explain Parley to me.", "What is this?",
                "How does this work?",
            ])
    }

    @Test func questionsForARealModel() {
        expect(
            .ownModel,
            of: [
                "How do I use my own model?", "How can I plug in a real model?",
                "How do I connect OpenAI?", "Can I use Claude?", "How do I connect my own agent?",
                "What is make brain?", "Which models are supported?", "I want to use GPT.",
                "How do I connect an LLM?", "What model should I use?",
                "How to plug in a real model?",
            ])
    }

    @Test func smallTalk() {
        expect(.greeting, of: ["Hello!", "Hi there.", "Good morning", "Can you hear me?", "Test."])
        expect(.wellbeing, of: ["How are you?", "How are you today?"])
        expect(.thanks, of: ["Thank you.", "Thanks a lot"])
        expect(.farewell, of: ["Goodbye!", "Bye.", "Good night."])
        expect(.stop, of: ["Stop.", "Stop it!", "Okay, that's enough.", "Be quiet."])
        expect(.again, of: ["What did you say?", "Repeat that, please.", "Say that again."])
        expect(.goOn, of: ["Go on.", "Please continue.", "Keep counting!"])
    }

    @Test func nothingAndTheUnknown() {
        expect(.nothing, of: ["", "  ", "...", "?!", "'"])
        expect(
            .unknown,
            of: [
                "Go forward ten meters.", "I like trains.", "The first time I saw the sea",
                "The weather in Paris was good yesterday.", "Tell me a joke.",
                "Qu'est-ce que c'est?",
                "我想知道", "You can count on me to be there.", "Wait until you have seen the new one.",
            ])
    }

    @Test(arguments: [
        ("Count to ten.", 1, 10), ("count to 10", 1, 10), ("Please count up to three!", 1, 3),
        ("Can you count to twenty five?", 1, 25), ("Count to twenty-five", 1, 25),
        ("Count 2 10.", 1, 10), ("Count two ten.", 1, 10), ("Count too ten", 1, 10),
        ("Count from five to nine.", 5, 9), ("Count from nine to five.", 9, 5),
        ("Count from two to ten.", 2, 10), ("Count down from five.", 5, 1),
        ("Count backwards from ten to three", 10, 3), ("Countdown from 3", 3, 1),
        ("Count down", 10, 1), ("Can you count?", 1, 10), ("count to a hundred", 1, 100),
        ("Count to one hundred.", 1, 100), ("count to 99999999999", 1, 100),
        ("count to two", 1, 2), ("count to one", 1, 1), ("Count to zero.", 10, 0),
        ("Count down from ten to zero.", 10, 0),
    ])
    func counts(phrase: String, first: Int, last: Int) {
        #expect(
            GuideIntent(of: phrase) == .count(SpokenCount(first: first, last: last)), "\(phrase)")
    }

    @Test func aNumberThatIsTooLargeCountsAsNone() {
        // It is more than an Int.
        let count = GuideIntent(of: "count to 99999999999999999999")
        #expect(count == .count(SpokenCount(first: 1, last: 10)))
    }

    /// A phrase is words beside each other, and no part of a word.
    @Test func phrasesAreWholeWords() {
        #expect(GuideIntent(of: "Are you a language model?") == .identity)
        #expect(GuideIntent(of: "Am I talking to") == .identity)
        #expect(GuideIntent(of: "Whowhat are youth") == .unknown)
        let filler = String(repeating: " well", count: 13)
        #expect(GuideIntent(of: "Interrupt\(filler)") == .interruption)
        #expect(GuideIntent(of: "Interrupt\(filler) well well well") == .unknown)
    }

    @Test func theRestOfACount() {
        #expect(SpokenCount(first: 1, last: 20).rest(after: 8) == SpokenCount(first: 9, last: 20))
        #expect(SpokenCount(first: 9, last: 5).rest(after: 7) == SpokenCount(first: 6, last: 5))
        #expect(SpokenCount(first: 1, last: 20).rest(after: 20) == nil)
        #expect(SpokenCount(first: 1, last: 20).rest(after: 30) == nil)
    }

    @Test func wordsAreWithoutPunctuationAndContractions() {
        #expect(GuideIntent.words(of: "What's 'this', then?") == ["what", "is", "this", "then"])
        #expect(GuideIntent.words(of: "Don’t — well, I'm") == ["dont", "well", "i", "am"])
    }
}
