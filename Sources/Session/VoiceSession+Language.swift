// The language of a conversation: the client names it, or a recogniser hears it. It goes with each
// utterance to the recogniser and with each clause to the voice, and chooses the words that tell when a
// turn is over. Where no voice speaks it, replies are text, and say why.

import Codec

extension VoiceSession {
    /// The language of the conversation, or nil where it is not known: the one that the client has
    /// named, otherwise the one that was heard.
    var language: String? { parameters.transcription?.languageHint ?? heardLanguage.settled }

    /// The rules for the words of the conversation. A language that is not settled counts: the newest
    /// words are in it. Before any words, it is the one that the server expects.
    var languageRules: LanguageRules {
        .rules(
            for: parameters.transcription?.languageHint ?? heardLanguage.newest
                ?? context.expectedLanguage)
    }

    /// The hints for recognising an utterance. The language that was heard is one of them, unless the
    /// client has named one.
    var recognitionHints: TranscriptionParameters? {
        guard let heard = heardLanguage.settled, parameters.transcription?.languageHint == nil
        else { return parameters.transcription }
        var hints = parameters.transcription ?? TranscriptionParameters()
        hints.language = heard
        return hints
    }

    /// Handles the language of a whole utterance.
    /// - Parameter heard: nil where the recogniser does not tell it, or has told it with a hypothesis.
    func noteLanguage(_ heard: String?, of text: String, _ awaited: AwaitedTranscript) {
        guard heardLanguage.settled == nil, TranscriptWords.has(in: text) else { return }
        heardLanguage.hear(heard)
        heardLanguage.settle(
            words: text.split(separator: " ").count,
            milliseconds: awaited.speechMilliseconds
                ?? SampleRate.hz16000.milliseconds(ofSamples: awaited.samples))
    }

    /// The language that no voice of the server speaks, or nil where one does. A telephone shows no
    /// text: there the voice speaks as well as it can.
    private var languageWithoutVoice: String? {
        guard playbackControl == .events, let spoken = context.voiceLanguages,
            let language = language.map(Phrase.primary), language.utf8.count == 2,
            !spoken.contains(language)
        else { return nil }
        return language
    }

    /// Makes a spoken reply one in text where no voice speaks the language of the conversation. Its
    /// metadata names the language, unless it has some of its client. A response outside the
    /// conversation may be in any language.
    func useTextWithoutVoice(_ description: inout ResponseDescription) {
        guard description.outputModality == .audio, description.conversationID != nil,
            let language = languageWithoutVoice
        else { return }
        description.outputModality = .text
        if description.metadata == nil {
            let metadata = JSONWriter.saved { $0.member("parley_no_voice", language) }
            description.metadata = RawJSON(String(decoding: metadata, as: UTF8.self))
        }
    }
}
