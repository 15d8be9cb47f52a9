// The phrases that a server speaks by itself, in its sessions' languages.

import Session

/// Phrases for turns that get no reply.
public struct PhraseSettings: Sendable {
    /// None: not each sound without words is a turn.
    public var notUnderstood = Phrase.none
    /// A caller who hears nothing thinks that the line is dead, so the default speaks an apology.
    public var apology =
        Phrase(
            """
            I'm sorry, I can't answer that just now. Please try again in a moment.\
            |de: Entschuldigung, das kann ich gerade nicht beantworten. Bitte versuchen Sie es gleich noch \
            einmal.\
            |es: Lo siento, ahora mismo no puedo responder. Inténtelo de nuevo en un momento.\
            |fr: Désolé, je ne peux pas répondre pour l'instant. Réessayez dans un instant.\
            |it: Mi dispiace, in questo momento non posso rispondere. Riprovi tra un attimo.\
            |nl: Sorry, ik kan nu even niet antwoorden. Probeer het zo nog eens.\
            |pt: Desculpe, não consigo responder agora. Tente novamente daqui a pouco.
            """) ?? .none

    private static let phrases =
        "texts of at most \(Phrase.maxBytes) bytes, with | between, each after its language and a colon"

    static let settings: [Setting<Self>] = [
        .value(
            "not-understood-phrase", \.notUnderstood, phrases,
            """
            What is said to a user who spoke for half a second or more, and of whom no word was \
            recognised; for example: Sorry, I did not understand that.|de: Das habe ich nicht \
            verstanden. The language is that of audio.input.transcription; the first text is for all \
            others. It is not said more than twice in a row. Without it such a turn is not answered.
            """),
        .value(
            "apology-phrase", \.apology, phrases,
            """
            What is said to a user whose spoken turn cannot be answered, because a model or the \
            recogniser has failed; languages as above. The response fails nonetheless. Empty: nothing \
            is said.
            """),
    ]
}
