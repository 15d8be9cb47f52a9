// The intent of a user of the guide, found in a transcript by rules of words. A rule lists groups
// of words and phrases, and needs one of each group; the first rule that fits decides. The rules
// also know what a recogniser hears instead of a word ("parlay", "cessions"). GuideAgent has the
// replies.

/// The intent of a message to the guide.
enum GuideIntent: Equatable {
    case greeting, farewell, thanks, wellbeing
    case identity, parley, maker, abilities, interruption
    case sessions, memory, latency, time
    case languages
    case ownModel
    case count(SpokenCount)
    /// The last reply again, or what an interruption has cut off.
    case again, goOn
    /// Silence, after an interruption.
    case stop
    /// No words were heard.
    case nothing
    case unknown

    /// The intent of a message.
    /// - Parameter text: its beginning; the work grows with its length, and not with the rules'.
    init(of text: String) {
        let words = Self.words(of: text)
        guard !words.isEmpty else {
            self = .nothing
            return
        }
        if !Self.sessionWords.contains(where: words.contains), let count = SpokenCount(in: words) {
            self = .count(count)
            return
        }
        guard words.count <= Self.maxWords else {
            self = .unknown
            return
        }
        let phrases = Self.phrases(of: words)
        let rule = Self.rules.first { $0.fits(phrases, wordCount: words.count) }
        self = rule?.intent ?? .unknown
    }

    /// Words of a message that rules are tried on. 16: a longer one is about something else.
    private static let maxWords = 16
    /// Words of the longest phrase of a rule.
    private static let maxPhraseWords = rules.reduce(1) { longest, rule in
        rule.phrases.reduce(longest) { max($0, $1.count { $0 == " " } + 1) }
    }

    /// The words of a message, and every phrase of neighbouring words: some rules have dozens of
    /// phrases, each of which is then one look into a table.
    private static func phrases(of words: [String]) -> Set<String> {
        var phrases: Set<String> = []
        for start in words.indices {
            var phrase = ""
            for word in words[start...].prefix(maxPhraseWords) {
                phrase += phrase.isEmpty ? word : " " + word
                phrases.insert(phrase)
            }
        }
        return phrases
    }

    /// The words of a text in lower case, without punctuation. "What's" is "what is".
    static func words(of text: String) -> [String] {
        text.lowercased().split { !$0.isLetter && !$0.isNumber && $0 != "'" && $0 != "’" }
            .flatMap { word in
                let parts = word.split(omittingEmptySubsequences: true) { $0 == "'" || $0 == "’" }
                    .map(String.init)
                guard parts.count == 2, let full = endings[parts[1]] else {
                    return [parts.joined()]
                }
                return [parts[0], full]
            }.filter { !$0.isEmpty }
    }

    private static let endings = ["s": "is", "re": "are", "m": "am"]

    // MARK: The rules

    private struct Rule {
        let intent: GuideIntent
        /// The message has a word or a phrase of each group.
        let needs: [[String]]
        /// The message has none of these.
        var lacks: [String] = []
        /// The message has at most this many words.
        var maxWords = GuideIntent.maxWords

        /// All phrases that it looks for.
        var phrases: [String] { needs.flatMap(\.self) + lacks }

        /// - Parameter message: its words and phrases.
        func fits(_ message: Set<String>, wordCount: Int) -> Bool {
            wordCount <= maxWords
                && needs.allSatisfy { $0.contains(where: message.contains) }
                && !lacks.contains(where: message.contains)
        }
    }

    private static let sessionWords = [
        "session", "sessions", "cession", "cessions", "secession", "sections",
    ]
    private static let parleyWords = [
        "parley", "parlay", "parlee", "parly", "parlie", "barley", "parlez", "parler", "pali",
    ]
    private static let modelWords = [
        "model", "models", "llm", "l l m", "llms", "brain", "gpt", "chatgpt", "chat gpt", "openai",
        "open ai", "claude", "anthropic", "llama", "mistral", "gemini", "api key", "own agent",
        "my agent", "my own agent", "another agent", "real agent",
    ]
    private static let durationWords = ["long", "fast", "quick", "quickly", "slow", "much time"]

    /// In the order in which they are tried: facts first, then explanations, then small talk.
    private static let rules: [Rule] = [
        Rule(intent: .latency, needs: [["latency", "latencies", "lag", "delay", "milliseconds"]]),
        Rule(
            intent: .latency,
            needs: [
                ["how"], durationWords,
                [
                    "take", "takes", "took", "taking", "taken", "answer", "answered", "reply",
                    "replied", "respond", "responded", "response", "last turn", "wait",
                ],
            ]),
        Rule(intent: .latency, needs: [["how fast", "how quick", "how slow"], ["you", "this"]]),
        Rule(
            intent: .sessions,
            needs: [
                sessionWords,
                [
                    "how many", "how much", "number", "count", "open", "running", "active", "many",
                    "any other", "other",
                ],
            ], lacks: ["memory"]),
        Rule(
            intent: .sessions,
            needs: [
                ["how many", "anyone else", "anybody else", "who else"],
                [
                    "people", "users", "callers", "clients", "connections", "conversations",
                    "connected", "online", "talking", "here",
                ],
            ]),
        Rule(
            intent: .memory,
            needs: [
                ["memory", "ram", "bytes", "kilobytes", "megabytes"],
                [
                    "how", "much", "use", "uses", "using", "used", "take", "takes", "session",
                    "your", "need", "what is",
                ],
            ]),
        Rule(
            intent: .memory, needs: [["how big", "how large", "how heavy"], ["you", "session"]]),
        Rule(
            intent: .time,
            needs: [
                [
                    "what time", "the time", "what is the date", "what day", "what date",
                    "today is date", "time is it", "the clock", "what is today",
                ]
            ], lacks: ["first", "last", "all the time", "every"], maxWords: 10),
        Rule(
            intent: .languages,
            needs: [
                ["language", "languages"],
                ["which", "what", "how many", "other", "speak", "hear", "understand", "know"],
            ], lacks: modelWords + ["programming", "written in"], maxWords: 12),
        Rule(
            intent: .languages,
            needs: [
                ["do you speak", "can you speak", "do you understand", "can you understand"],
                [
                    "english", "french", "german", "italian", "spanish", "portuguese", "russian",
                    "chinese", "japanese", "korean", "dutch", "polish", "turkish", "arabic",
                    "hindi", "swedish", "ukrainian", "foreign",
                ],
            ], maxWords: 10),
        Rule(
            intent: .identity,
            needs: [
                [
                    "what model", "which model", "what language model", "which language model",
                    "what llm",
                    "which llm", "are you chatgpt", "are you gpt", "are you claude",
                    "are you a language model", "are you an llm", "are you a model",
                ]
            ], lacks: ["i", "my", "own", "supported", "support"]),
        Rule(
            intent: .ownModel,
            needs: [
                modelWords,
                [
                    "how", "use", "connect", "plug", "own", "real", "put", "add", "my", "attach",
                    "run", "start", "switch", "get", "give", "want", "make", "can", "should",
                    "what", "where", "which", "support", "supported",
                ],
            ]),
        Rule(
            intent: .maker,
            needs: [
                ["who", "whom", "which company", "what company"],
                [
                    "made", "make", "makes", "built", "build", "wrote", "created", "create",
                    "creator", "developed", "developer", "programmed", "owns", "behind", "maker",
                    "invented",
                ],
            ], maxWords: 10),
        Rule(
            intent: .parley,
            needs: [
                parleyWords,
                [
                    "what", "about", "tell", "explain", "how", "why", "describe", "who", "purpose",
                    "is",
                ],
            ], lacks: ["time"]),
        Rule(
            intent: .parley,
            needs: [
                [
                    "what is this", "what does this", "how does this", "what is it", "how does it",
                    "explain this", "what does it", "where am i",
                ]
            ], maxWords: 9),
        Rule(
            intent: .interruption,
            needs: [["interrupt", "interrupted", "interrupting", "cut you off", "talk over you"]]),
        Rule(
            intent: .abilities,
            needs: [
                [
                    "what can you", "what do you do", "what else can", "what can i", "can you help",
                    "help me", "what should i", "what are your", "what do you know",
                    "your abilities",
                    "what could you", "what may i", "show me what", "how can you help", "examples",
                ]
            ], lacks: ["your name"], maxWords: 10),
        Rule(
            intent: .abilities, needs: [["help", "menu", "options", "instructions"]], maxWords: 3),
        Rule(
            intent: .identity,
            needs: [
                [
                    "who are you", "what are you", "your name", "are you a", "are you an",
                    "are you real", "are you human", "about yourself", "introduce yourself",
                    "explain yourself", "who is this", "who am i talking to", "am i talking to",
                    "who is there", "are you artificial", "are you alive",
                ]
            ], maxWords: 12),
        Rule(
            intent: .goOn,
            needs: [["go on", "continue", "carry on", "keep going", "keep counting", "go ahead"]],
            maxWords: 5),
        Rule(
            intent: .again,
            needs: [
                [
                    "repeat that", "say that again", "what did you say", "pardon", "come again",
                    "repeat it", "say it again", "repeat please", "please repeat", "once more",
                    "one more time", "i did not hear", "i didnt hear", "repeat",
                ]
            ], maxWords: 6),
        Rule(
            intent: .stop,
            needs: [
                [
                    "stop", "enough", "quiet", "shut up", "silence", "wait", "hold on",
                    "never mind",
                    "nevermind", "okay stop", "cancel",
                ]
            ], maxWords: 4),
        Rule(
            intent: .wellbeing,
            needs: [["how are you", "how do you do", "how is it going", "how are things"]],
            maxWords: 7),
        Rule(
            intent: .thanks, needs: [["thank you", "thanks", "thank", "cheers", "great job"]],
            maxWords: 6),
        Rule(
            intent: .farewell,
            needs: [["goodbye", "good bye", "bye", "see you", "good night"]], maxWords: 5),
        Rule(
            intent: .greeting,
            needs: [
                [
                    "hello", "hi", "hey", "good morning", "good evening", "good afternoon",
                    "can you hear me", "are you there", "test", "testing", "greetings",
                ]
            ], maxWords: 6),
    ]
}
