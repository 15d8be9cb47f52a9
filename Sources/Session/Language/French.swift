// French.

extension LanguageRules {
    /// French. Spoken, it takes about 59 ms a byte: 205 prompts of asterisk-core-sounds-fr.
    static let french = LanguageRules(
        turnEnds: TurnEndWords(
            wantMore: [
                "le", "la", "les", "du", "des", "au", "aux", "mon", "ma", "mes", "ton", "ta", "tes",
                "sa", "ses", "notre", "votre", "nos", "vos", "cet", "cette", "ces", "et", "ou",
                "mais", "car", "que", "qu", "parce", "puisque", "lorsque", "afin", "dans", "sur",
                "sous", "chez", "vers", "entre", "très", "ne", "ni", "euh", "heu", "hum",
            ],
            wantMoreOutsideQuestions: [
                "de", "d", "à", "en", "par", "dès", "sans", "pendant", "jusque", "jusqu'à", "comme",
                "quand", "je", "j", "il", "ils", "on", "c'est", "j'ai", "j'aimerais", "qui", "quel",
                "quelle",
            ],
            wantMoreAfter: ["puis": ["et"], "alors": ["et"], "ensuite": ["et"]],
            mayGoOn: [
                "un", "une", "son", "leur", "pour", "avec", "contre", "après", "avant", "depuis",
                "est", "sont", "suis", "es", "était", "a", "ai", "ont", "as", "avez", "peut",
                "peux", "veux", "voudrais", "dois", "doit", "faut", "si", "donc", "puis", "alors",
                "ça", "tu", "nous", "vous", "me", "te", "se", "lui", "y", "plus", "moins", "trop",
                "bien", "dont", "où",
            ],
            questionWords: [
                "où", "quand", "comment", "pourquoi", "combien", "qui", "quoi", "quel", "quelle",
                "quels", "quelles", "lequel", "laquelle", "qu'est",
            ],
            auxiliaries: ["est-ce", "est", "sont"],
            subjects: [
                "que", "qu'il", "qu'elle", "qu'on", "qu'ils", "qu'elles", "ce", "votre", "ton",
                "le", "la", "les",
            ],
            numbers: [
                "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf",
                "dix", "onze", "douze", "treize", "quatorze", "quinze", "seize", "vingt", "trente",
                "quarante", "cinquante", "soixante", "septante", "huitante", "nonante",
                "quatre-vingt", "quatre-vingts", "cent", "cents", "mille", "double",
            ],
            roundNumbers: ["million", "millions"]),
        assents: AssentWords(
            words: [
                "ah", "ahah", "oui", "ouais", "ouaip", "mouais", "ok", "okay", "okey", "d'accord",
                "daccord", "bien", "bon", "parfait", "super", "génial", "exact", "exactement",
                "entendu", "voilà", "hm", "hmm", "mhm", "mm", "mmh", "hein", "oh", "certes",
                "évidemment", "naturellement", "vraiment", "cool", "merci",
            ],
            phrases: [
                ["d", "accord"], ["je", "vois"], ["je", "comprends"], ["très", "bien"],
                ["bien", "sûr"], ["c'est", "vrai"], ["c", "est", "vrai"], ["ça", "marche"],
                ["tout", "à", "fait"], ["en", "effet"], ["ah", "bon"],
            ]),
        commands: [
            "non", "nan", "stop", "stoppe", "arrête", "arrêtez", "attends", "attendez", "minute",
            "pardon", "désolé", "désolée", "excuse", "excusez", "allô", "chut", "assez", "mais",
            "quoi", "comment", "annule", "annulez", "doucement",
        ],
        questions: QuestionWords(
            details: [
                "numéro", "téléphone", "portable", "adresse", "rue", "nom", "prénom", "épeler",
                "épelez", "épelle", "email", "mail", "courriel", "date", "naissance", "code",
                "iban", "carte", "compte", "référence", "dossier", "commande", "immatriculation",
                "identifiant", "chiffres", "lettres",
            ],
            requests: [
                "donner", "donnez", "donne", "dire", "dites", "épeler", "épelez", "épelle",
                "indiquer", "indiquez", "préciser", "précisez", "répéter", "répétez", "rappeler",
                "communiquer", "puis",
            ],
            choices: ["ou"]),
        clauses: ClauseWords(
            abbreviations: [
                "av", "bd", "cf", "chap", "dr", "env", "etc", "ex", "fig", "janv", "févr", "avr",
                "juil", "sept", "oct", "nov", "déc", "m", "me", "mlle", "mme", "mm", "no", "p",
                "pp", "prof", "réf", "st", "ste", "tél", "vol",
            ],
            conjunctions: [
                "alors", "car", "comme", "donc", "et", "lorsque", "mais", "ou", "où", "puis",
                "puisque", "quand", "que", "qui", "si", "tandis",
            ]),
        millisecondsPerByte: 59)
}
