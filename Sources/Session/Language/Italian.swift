// Italian.

extension LanguageRules {
    /// Italian. Spoken, it takes about 58 ms a byte (203 prompts of asterisk-core-sounds-it).
    static let italian = LanguageRules(
        turnEnds: TurnEndWords(
            wantMore: [
                "il", "lo", "la", "i", "gli", "le", "un", "del", "dello", "della", "dei", "degli",
                "delle", "al", "allo", "alla", "ai", "agli", "alle", "dal", "dallo", "dalla", "nel",
                "nello", "nella", "nei", "negli", "nelle", "sul", "sullo", "sulla", "e", "ed", "o",
                "oppure", "ma", "perché", "poiché", "che", "se", "quando", "mentre",
                "tuo", "ehm", "eh", "mmm",
            ],
            wantMoreOutsideQuestions: [
                "di", "a", "da", "in", "con", "su", "per", "tra", "fra", "senza", "verso", "sopra",
                "come", "è", "sono", "mi", "ti", "si", "ci", "vi",
            ],
            wantMoreAfter: ["poi": ["e"], "quindi": ["e"], "allora": ["e"]],
            mayGoOn: [
                "una", "uno", "mia", "tua", "sua", "nostro", "vostro", "loro", "era", "erano", "ho",
                "hai", "ha", "hanno", "posso", "può", "puoi", "devo", "deve", "vorrei", "voglio",
                "vuole", "non", "più", "poi", "quindi", "allora", "anche", "però", "cioè", "io",
                "questo", "questa", "quello", "quella", "dove", "chi",
            ],
            questionWords: [
                "che", "cosa", "chi", "quale", "quali", "qual", "dove", "quando", "come", "perché",
                "quanto", "quanta", "quanti", "quante",
            ],
            numbers: compoundNumbers.union([
                "zero", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove",
                "dieci", "undici", "dodici", "tredici", "quattordici", "quindici", "sedici",
                "diciassette", "diciotto", "diciannove", "venti", "trenta", "quaranta", "cinquanta",
                "sessanta", "settanta", "ottanta", "novanta", "cento", "mille", "doppio",
            ]),
            roundNumbers: ["milione", "milioni"]),
        assents: AssentWords(
            words: [
                "ah", "aha", "sì", "si", "ok", "okay", "okei", "certo", "bene", "benissimo",
                "perfetto", "esatto", "esattamente", "giusto", "capito", "capisco", "già", "ottimo",
                "chiaro", "hm", "hmm", "mhm", "mm", "oh", "davvero", "vero", "ecco", "sicuro",
                "bravo", "grazie", "infatti",
            ],
            phrases: [
                ["va", "bene"], ["d'accordo"], ["ho", "capito"], ["certo", "che"], ["è", "vero"],
                ["molto", "bene"], ["tutto", "chiaro"], ["ci", "sono"],
            ]),
        commands: [
            "no", "aspetta", "aspetti", "aspettate", "ferma", "fermati", "fermo", "fermi", "stop",
            "basta", "scusa", "scusi", "scusate", "scusami", "momento", "attimo", "pronto", "ciao",
            "silenzio", "zitto", "zitta", "ma", "però", "annulla", "annulli", "cosa",
        ],
        questions: QuestionWords(
            details: [
                "numero", "telefono", "cellulare", "indirizzo", "via", "nome", "cognome", "data",
                "nascita", "email", "mail", "sillabare", "scandire", "posta", "codice", "cap",
                "conto", "carta", "riferimento", "ordine", "targa", "password", "iban", "lettere",
                "cifre",
            ],
            requests: [
                "dare", "darmi", "dammi", "dia", "dire", "dirmi", "dimmi", "dica", "dettare",
                "detti", "sillabare", "scandire", "indicare", "indicarmi", "ripetere", "ripeta",
                "ripeti", "fornire", "fornirmi", "lasciare", "lasciarmi", "serve",
            ],
            choices: ["o", "oppure"]),
        clauses: ClauseWords(
            abbreviations: [
                "avv", "cap", "cfr", "dott", "dr", "dssa", "ecc", "fig", "ing", "max", "min", "n",
                "nr", "pag", "pp", "prof", "rag", "sig", "sigg", "sigra", "spett", "tel", "vol",
                "gen", "feb", "apr", "ott", "nov", "dic",
            ],
            conjunctions: [
                "allora", "che", "come", "dove", "e", "ma", "mentre", "o", "oppure", "perché",
                "però", "poi", "quando", "quindi", "se",
            ]),
        millisecondsPerByte: 58)
}

/// The numbers from 21 to 99, which Italian writes as one word: "ventidue", "ventuno", "ventotto".
private let compoundNumbers = Set(
    ["vent", "trent", "quarant", "cinquant", "sessant", "settant", "ottant", "novant"].flatMap {
        ten in
        ["uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove"].map { one in
            let vowel = "uo".contains(one.prefix(1)) ? "" : ten == "vent" ? "i" : "a"
            return ten + vowel + (one == "tre" ? "tré" : one)
        }
    })
