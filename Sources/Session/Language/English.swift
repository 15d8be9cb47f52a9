// English.

extension LanguageRules {
    /// English. Spoken, it takes about 65 ms a letter.
    static let english = LanguageRules(
        turnEnds: TurnEndWords(
            wantMore: [
                "a", "an", "the", "my", "your", "our", "their", "its", "every", "and", "or", "but",
                "nor", "because", "cause", "although", "unless", "whereas", "if", "whether", "than",
                "as", "um", "uh", "er", "erm", "ehm", "hmm",
            ],
            wantMoreOutsideQuestions: [
                "of", "to", "for", "with", "from", "at", "by", "into", "onto", "between", "towards",
                "without", "against", "until", "till", "during", "via", "per", "under", "near",
                "like", "while", "when", "i", "he", "she", "we", "they", "very", "quite", "rather",
                "such", "also", "maybe", "perhaps", "let's", "it's", "that's", "there's", "what's",
                "he's", "she's", "who's", "where's", "here's",
            ],
            unfinishedEnds: ["'m", "'re", "'ll", "'ve", "'d"],
            // "I think so" is complete.
            wantMoreUnlessAfter: [
                "so": [
                    "think", "hope", "guess", "suppose", "believe", "say", "says", "said", "not",
                    "even", "do", "did", "is",
                ]
            ],
            wantMoreAfter: ["mean": ["i"], "then": ["and"]],
            mayGoOn: [
                "in", "on", "over", "through", "about", "is", "are", "was", "were", "am", "be",
                "been", "can", "could", "would", "should", "will", "shall", "may", "might", "must",
                "have", "has", "had", "do", "does", "did", "that", "this", "which", "who", "what",
                "where", "how", "his", "her", "some", "any", "not", "just", "then", "well", "know",
            ],
            questionWords: [
                "what", "who", "whom", "whose", "which", "where", "when", "why", "how",
            ],
            auxiliaries: [
                "is", "are", "was", "were", "am", "do", "does", "did", "can", "could", "would",
                "should", "will", "shall", "may", "might", "must", "have", "has", "had",
            ],
            subjects: [
                "i", "you", "he", "she", "it", "we", "they", "there", "this", "that", "these",
                "those", "the", "a", "an", "my", "your", "his", "her", "our", "their", "anyone",
                "anybody", "someone", "somebody",
            ],
            numbers: [
                "zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight",
                "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen",
                "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty", "fifty", "sixty",
                "seventy", "eighty", "ninety", "hundred", "thousand", "double", "triple",
            ],
            roundNumbers: ["million"]),
        assents: AssentWords(
            words: [
                "absolutely", "ah", "aha", "alright", "awesome", "cool", "definitely", "exactly",
                "excellent", "fine", "good", "great", "ha", "hm", "hmm", "huh", "indeed",
                "interesting", "lovely", "mhm", "mm", "mmhm", "mmhmm", "mmm", "nice", "oh", "ok",
                "okay", "perfect", "really", "right", "sure", "true", "uh", "uhhuh", "uhuh", "um",
                "understood", "wonderful", "wow", "yah", "yay", "yea", "yeah", "yep", "yes", "yup",
            ],
            phrases: [
                ["i", "see"], ["i", "understand"], ["got", "it"], ["of", "course"],
                ["all", "right"], ["go", "on"], ["go", "ahead"], ["makes", "sense"],
                ["make", "sense"], ["that", "makes", "sense"], ["that's", "right"],
                ["that's", "true"], ["that's", "good"], ["that's", "great"], ["that's", "fine"],
                ["sounds", "good"], ["sounds", "great"], ["very", "good"], ["very", "nice"],
                ["fair", "enough"],
            ]),
        commands: [
            "no", "nope", "stop", "wait", "hold", "hang", "sorry", "excuse", "pardon", "what",
            "hello", "hey", "cancel", "quiet", "enough", "shut", "listen", "please", "but",
            "actually", "however",
        ],
        questions: QuestionWords(
            details: [
                "number", "phone", "telephone", "mobile", "extension", "address", "street", "name",
                "surname", "spell", "spelling", "email", "mail", "date", "birthday", "birth",
                "code", "postcode", "zip", "account", "iban", "card", "reference", "password",
                "pin", "id", "plate", "digits", "letters",
            ],
            requests: [
                "tell", "give", "spell", "say", "read", "repeat", "dictate", "provide", "enter",
                "confirm", "need", "get", "have", "take", "please",
            ],
            choices: ["or"]),
        clauses: ClauseWords(
            // "etc." and "p.m." may end a sentence, but a missed end is heard less than a
            // false one.
            abbreviations: [
                "adm", "al", "approx", "apt", "assn", "ave", "bldg", "blvd", "ca", "capt", "cf",
                "cmdr", "co", "col", "corp", "dept", "dr", "ed", "eds", "eg", "est", "etc", "ext",
                "fig", "figs", "ft", "gen", "gov", "hon", "hr", "hrs", "ie", "inc", "jr", "lb",
                "lbs", "lt", "ltd", "maj", "max", "messrs", "min", "mr", "mrs", "ms", "mt", "mts",
                "nos", "oz", "pp", "prof", "rd", "rep", "rev", "sen", "sgt", "sr", "st", "tel",
                "univ", "viz", "vol", "vols", "vs", "jan", "feb", "apr", "aug", "sept", "oct",
                "nov", "dec",
            ],
            conjunctions: [
                "although", "and", "because", "but", "or", "since", "so", "then", "though",
                "unless", "until", "when", "where", "whereas", "which", "while", "who",
            ]),
        millisecondsPerByte: 65)
}
