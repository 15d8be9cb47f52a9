// What users say over a reply: nods, which ask the agent to go on, and interruptions. flite's
// four speakers and the natural voice say them, and people in recordings of Debian's packages. The rule of
// InterruptionJudge was found with the phrases that are marked as known; the others judge it.

import Agents
import Codec
import Foundation
import Session
import TestMaterial

/// One utterance over a reply.
struct NodSpeech: Sendable {
    /// What the user means.
    enum Meaning: CaseIterable, Sendable { case nod, interruption }

    let words: String
    let meaning: Meaning
    /// Who says it.
    let speaker: String
    /// Whether the rule was found with this phrase.
    let isKnown: Bool
    /// Mono samples at 16 kHz, without silence around them.
    let samples: [Int16]

    private static let knownNods = [
        "right", "okay", "yeah", "yes", "sure", "I see", "got it", "good", "great", "of course",
        "all right", "oh really", "okay, okay", "yeah, right", "wow", "makes sense", "cool",
    ]
    private static let newNods = [
        "yep", "yup, okay", "exactly", "perfect", "I understand", "fine", "sounds good",
        "that's right", "no problem", "very good", "oh, okay", "yes, yes", "true", "nice",
        "absolutely", "oh, I see", "right, right, right", "okay, great", "fair enough",
        "interesting",
    ]
    private static let knownInterruptions = [
        "no, wait", "stop", "hold on", "actually, I want", "sorry, can you repeat that",
        "what about Tuesday", "no", "wait a second", "but I need it today", "how much is it",
        "excuse me", "that's wrong", "can I ask something", "I don't think so",
        "okay but what about Friday", "yes I know that already",
        "right, but how long does it take", "no no no", "cancel that", "let me think", "hello",
        "are you there", "speak slower please", "I have a question", "not that one",
        "the other one", "I said Monday", "thank you, bye", "tell me the price", "go back",
    ]
    private static let newInterruptions = [
        "no, thanks", "please stop", "one moment", "that's not what I asked", "never mind",
        "is there a cheaper one", "my order number is four seven", "can we skip this",
        "louder please", "what", "why", "who is this", "I already did that", "wait, which one",
        "yeah but not today", "okay stop", "when does it open", "give me a person",
        "I'm in a hurry", "repeat that", "the first one please", "do you speak Spanish",
        "hang on", "it doesn't work",
    ]

    /// All phrases by the embedded voice's speakers, its own spelling of "mhm" left out: it says
    /// letters.
    static func synthesized(on host: ModelHost) async throws -> [NodSpeech] {
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let voice = EmbeddedSynthesizer(modelsDirectory: models, engine: .natural) {
            fatalError("the natural voice: \($0); run make voice")
        }
        let phrases =
            knownNods.map { ($0, Meaning.nod, true) } + newNods.map { ($0, .nod, false) }
            + knownInterruptions.map { ($0, .interruption, true) }
            + newInterruptions.map { ($0, .interruption, false) }
        var found: [NodSpeech] = []
        for speaker in ["marin", "slt", "rms", "awb", "kal16"] {
            for (words, meaning, isKnown) in phrases {
                found.append(
                    NodSpeech(
                        words: words, meaning: meaning, speaker: speaker, isKnown: isKnown,
                        samples: try await PausedSpeech.samples(
                            of: words, voice, host, name: speaker)))
            }
        }
        return found
    }

    /// Interruptions by people: prompts of asterisk-core-sounds-en-wav, pocketsphinx-testdata and
    /// alsa-utils. There are no recorded nods in Debian's packages.
    static func recorded() throws -> [NodSpeech] {
        let prompts = [
            "hello", "goodbye", "im-sorry", "one-moment-please", "please-try-again", "cancelled",
            "do-not-disturb", "telephone-number", "to-call-this-number", "from-unknown-caller",
            "removed", "location", "extension", "conf-full", "conf-errormenu", "calling",
        ]
        let people = try prompts.map { prompt in
            NodSpeech(
                words: prompt, meaning: .interruption, speaker: "Asterisk", isKnown: false,
                samples: try SpokenPrompts.samples(of: [prompt]))
        }
        let short = try HumanRecording.all.filter { !$0.path.contains("librivox") }.map {
            NodSpeech(
                words: $0.cuts[0].words, meaning: .interruption, speaker: "Sphinx, ALSA",
                isKnown: false, samples: try $0.samples())
        }
        return (people + short).map { speech in
            NodSpeech(
                words: speech.words, meaning: speech.meaning, speaker: speech.speaker,
                isKnown: speech.isKnown, samples: PausedSpeech.withoutSilentEnd(speech.samples))
        }
    }
}
