// German.

extension LanguageRules {
    /// German. Particles of verbs ("an", "mit") and pronouns end its sentences: they want no more. Its
    /// pace was not measured: it is that of English.
    static let german = LanguageRules(
        turnEnds: TurnEndWords(
            wantMore: [
                "und", "oder", "weil", "dass", "ob", "obwohl", "sondern", "wenn", "falls", "sobald",
                "bevor", "nachdem", "während", "zwischen", "einem", "mein", "meinem", "meinen",
                "dein", "unser", "kein", "dem", "den", "des", "im", "am", "ins", "vom", "zum",
                "zur", "beim", "äh", "ähm", "öhm", "hm",
            ],
            wantMoreOutsideQuestions: [
                "aber", "als", "für", "gegen", "von", "bei", "bis", "ohne", "sowie", "bzw", "ein",
            ],
            wantMoreAfter: ["dann": ["und"], "also": ["ähm", "äh"]],
            mayGoOn: [
                "der", "die", "das", "ein", "eine", "einen", "einer", "in", "seit", "ist", "sind",
                "war", "waren", "bin", "bist", "hat", "habe", "haben", "wird", "werde", "werden",
                "kann", "können", "muss", "müssen", "soll", "will", "möchte", "noch", "nur", "sehr",
                "denn", "also", "dann", "wie", "was", "wo", "wer",
            ],
            questionWords: [
                "was", "wer", "wen", "wem", "wessen", "welche", "welcher", "welches", "welchen",
                "wo", "wohin", "woher", "wann", "warum", "wieso", "weshalb", "wie", "womit",
                "wofür", "worum",
            ],
            auxiliaries: [
                "ist", "sind", "war", "waren", "bin", "bist", "habe", "hast", "hat", "haben",
                "hatte", "kann", "kannst", "können", "könnte", "könnten", "muss", "musst", "müssen",
                "soll", "sollen", "sollte", "will", "willst", "wollen", "möchte", "möchten",
                "möchtest", "wird", "werden", "würde", "würden", "darf", "dürfen", "gibt",
            ],
            subjects: [
                "ich", "du", "er", "sie", "es", "wir", "ihr", "man", "das", "dies", "diese",
                "dieser", "der", "die", "ein", "eine", "mein", "meine", "dein", "deine", "ihre",
                "jemand",
            ],
            numbers: compoundNumbers.union([
                "null", "eins", "zwei", "zwo", "drei", "vier", "fünf", "sechs", "sieben", "acht",
                "neun", "zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn",
                "siebzehn", "achtzehn", "neunzehn", "zwanzig", "dreißig", "vierzig", "fünfzig",
                "sechzig", "siebzig", "achtzig", "neunzig", "hundert", "tausend", "doppelt",
            ]),
            roundNumbers: ["million", "millionen"]),
        assents: AssentWords(
            words: [
                "ach", "ah", "aha", "ja", "jaja", "jawohl", "jo", "jep", "genau", "gut", "okay",
                "ok", "klar", "stimmt", "richtig", "schön", "super", "toll", "prima", "hm", "hmm",
                "mhm", "mm", "mmh", "oh", "so", "sicher", "natürlich", "verstehe", "verstanden",
                "echt", "wirklich", "wow", "cool", "danke",
            ],
            phrases: [
                ["alles", "klar"], ["ach", "so"], ["na", "klar"], ["in", "ordnung"],
                ["ja", "klar"],
                ["ich", "verstehe"], ["sehr", "gut"], ["weiter", "so"], ["macht", "sinn"],
            ]),
        commands: [
            "nein", "nee", "stopp", "stop", "halt", "warte", "warten", "moment", "entschuldigung",
            "entschuldigen", "sorry", "verzeihung", "pardon", "hallo", "ruhe", "genug", "aber",
            "doch", "bitte", "was", "wie",
        ],
        questions: QuestionWords(
            details: [
                "nummer", "telefonnummer", "handynummer", "rufnummer", "kundennummer",
                "kontonummer", "bestellnummer", "auftragsnummer", "rechnungsnummer", "kartennummer",
                "hausnummer", "vertragsnummer", "iban", "adresse", "anschrift", "straße",
                "postleitzahl", "name", "namen", "nachname", "nachnamen", "vorname", "vornamen",
                "buchstabieren", "datum", "geburtsdatum", "geburtstag", "email", "mailadresse",
                "mail", "kennwort", "passwort", "code", "pin", "kennzeichen", "buchstaben",
                "ziffern",
            ],
            requests: [
                "nennen", "nenne", "sagen", "sag", "buchstabieren", "buchstabiere", "geben", "gib",
                "diktieren", "lauten", "lautet", "bitte", "wiederholen", "eingeben", "brauche",
                "benötige", "mitteilen", "verraten",
            ],
            choices: ["oder"]),
        clauses: ClauseWords(
            abbreviations: [
                "abs", "allg", "bd", "bzw", "ca", "dr", "etc", "evtl", "ggf", "hr", "fr", "hrsg",
                "inkl", "max", "min", "mio", "mrd", "nr", "prof", "sog", "st", "str", "tel", "usw",
                "vgl", "zzgl", "jan", "feb", "aug", "sept", "okt", "nov", "dez",
            ],
            conjunctions: [
                "aber", "als", "bis", "dann", "dass", "denn", "doch", "obwohl", "oder", "sobald",
                "sondern", "und", "weil", "wenn", "wo", "wobei", "während",
            ]),
        millisecondsPerByte: 65)
}

/// The numbers from 21 to 99, which German writes as one word: "einundzwanzig".
private let compoundNumbers = Set(
    ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
        .flatMap { ten in
            ["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"].map {
                "\($0)und\(ten)"
            }
        })
