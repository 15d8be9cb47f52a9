// The words of the guide: fixed texts, and sentences made of a tool's result. Sentences are short,
// and are written for the ear. GuideAgent decides which one is due.

import Codec

/// The guide's texts.
enum GuideReplies {
    static let greeting =
        "Hello! I am the guide of this Parley server. Ask me how many sessions are open, ask me to "
        + "count to twenty, and interrupt me whenever you like."
    static let nothing = "I did not catch that. Could you say it again?"
    static let identity =
        "I am the guide of this Parley server. There is no language model behind me: I follow a "
        + "few rules, and look up facts with tools. Ask me what I can do."
    static let parley =
        "Parley is a server for voice agents. It hears you, finds the end of your turn, asks an "
        + "agent for a reply, and speaks it. Existing clients of the OpenAI Realtime protocol can "
        + "connect to it."
    static let maker =
        "I am a small part of Parley, written in Swift by its authors. No company's model is "
        + "behind me."
    static let abilities =
        "I explain Parley, count, and tell the time. I look up how many sessions are open, how much "
        + "memory yours takes, and how long my last answer took. I also say how to plug in a real "
        + "model, and in which languages I hear you."
    static let interruption =
        "Yes, at any time. Say count to twenty, and speak while I count: I stop, and I know which "
        + "numbers you have heard."
    static let ownModel =
        "Start the server with the option --llm and the address of any model that speaks OpenAI's "
        + "chat completions. You have none? Run make brain in another terminal. It serves a small "
        + "model on this machine, and prints the line that starts Parley with it."
    static let wellbeing = "I am well, thank you. Ask me what I can do."
    static let thanks = "You are welcome."
    static let farewell = "Goodbye!"
    static let stop = "All right."
    static let nothingToRepeat = "I have said nothing yet."
    static let nothingToGoOn =
        "There is nothing to go on with. Ask me to count to twenty, and interrupt me."
    static let yourTurn = "It is your turn. Ask me what I can do."
    static let notOffered =
        "I look that up with a tool of this server, named parley, which your client does not offer "
        + "me. The server's own page does."
    static let lookupFailed = "I could not look that up."
    static let instructions =
        "Your instructions have reached me, but it takes a model to follow them."

    /// The most words of the user that are repeated. 12: a user who has said more knows the words.
    private static let maxQuotedWords = 12

    /// The reply to what no rule fits.
    static func unknown(_ heard: String) -> String {
        let words = heard.split(whereSeparator: \.isWhitespace)
        var quoted = words.prefix(maxQuotedWords).joined(separator: " ")
        while let last = quoted.last, ".!?,;:".contains(last) { quoted.removeLast() }
        let end = words.count > maxQuotedWords ? ", and so on." : "."
        return "I heard: \(quoted)\(end) I am a demo, and know no answer to that. Ask me how many "
            + "sessions are open, how long my last answer took, or how to use a real model."
    }

    /// Numbers, each a word of the reply.
    static func counted(_ count: SpokenCount) -> String {
        count.numbers.map(String.init).joined(separator: ", ") + "."
    }

    // MARK: Languages

    /// The names of languages whose speech may be recognised, by their codes (ISO 639-1).
    private static let languageNames = [
        "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
        "en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French", "he": "Hebrew",
        "hi": "Hindi", "hu": "Hungarian", "it": "Italian", "ja": "Japanese", "ko": "Korean",
        "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
        "ru": "Russian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
        "zh": "Chinese",
    ]

    /// In which languages the server hears its users.
    /// - Parameter codes: of those languages, the most expected one first. Empty: it is not known.
    static func languages(_ codes: [String]) -> String {
        let known = codes.compactMap { languageNames[$0] }
        guard codes != ["en"] else {
            return "I hear and speak English. Run make languages, and start the server with the "
                + "option recognizer languages: then it hears others, too, and an agent of your "
                + "own answers in them."
        }
        guard !known.isEmpty, known.count == codes.count else {
            return "I speak English. Which languages the server hears is up to its recogniser."
        }
        let last = known.dropLast().isEmpty ? "" : " and "
        let list = known.dropLast().joined(separator: ", ") + last + (known.last ?? "")
        return "The server hears \(list). I know English only: an agent of your own answers in "
            + "the others."
    }

    // MARK: Time

    /// The time of day and the day of the week, in universal time.
    /// - Parameter seconds: since 1970.
    static func time(_ seconds: Int) -> String {
        let day = seconds / 86_400
        let minute = seconds % 86_400 / 60
        let minutes = minute % 60 < 10 ? "0\(minute % 60)" : "\(minute % 60)"
        // The first day of 1970 was a Thursday.
        let weekdays = [
            "Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday",
        ]
        return "It is \(minute / 60):\(minutes) on \(weekdays[day % 7]), in universal time."
    }

    // MARK: Facts

    /// The sentence for a tool's result.
    /// - Parameter output: JSON, or the text of an error.
    static func fact(_ tool: GuideTool, _ output: String) -> String {
        // A value is good only as long as its parser.
        let parser = JSONParser()
        guard let result = try? parser.parse(output), result.kind == .object else {
            return lookupFailed
        }
        switch tool {
        case .countSessions:
            guard let count = result["sessions_open"]?.int, count > 0 else { return lookupFailed }
            return count == 1
                ? "One session is open. It is yours."
                : "\(count) sessions are open. One of them is yours."
        case .readMemory:
            guard let bytes = result["session_bytes"]?.int, bytes >= 0 else { return lookupFailed }
            return "This session takes \(size(bytes)) of the server's memory."
        case .readLatency:
            return latency(
                words: result["transcript_ms"]?.int, token: result["first_token_ms"]?.int,
                sound: result["first_audio_ms"]?.int)
        }
    }

    private static func size(_ bytes: Int) -> String {
        if bytes < 1_000 { return "\(bytes) bytes" }
        if bytes < 999_500 { return "\((bytes + 500) / 1_000) kilobytes" }
        let tenths = (bytes + 50_000) / 100_000
        return "\(tenths / 10).\(tenths % 10) megabytes"
    }

    private static func latency(words: Int?, token: Int?, sound: Int?) -> String {
        guard let token else {
            return "I have answered no turn before this one. Ask me again."
        }
        guard let words else {
            return "Your last message was typed. My first word came \(after(token))."
        }
        var reply = "You stopped speaking, and I had your words \(after(words))."
        reply += " My reply began \(after(token))"
        if let sound { reply += ", and its sound \(after(sound))" }
        return reply + "."
    }

    private static func after(_ milliseconds: Int) -> String {
        switch milliseconds {
        case ..<1: "in less than a millisecond"
        case 1: "after one millisecond"
        case ..<10_000: "after \(milliseconds) milliseconds"
        default: "after \(milliseconds / 1_000) seconds"
        }
    }
}
