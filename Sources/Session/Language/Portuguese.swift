// Portuguese.

extension LanguageRules {
    /// Portuguese of Brazil and Portugal. Its pace was not measured: it is that of English.
    static let portuguese = LanguageRules(
        turnEnds: TurnEndWords(
            wantMore: [
                "os", "ao", "aos", "do", "da", "dos", "das", "no", "na", "nos", "nas", "num",
                "numa", "pelo", "pela", "meu", "minha", "meus", "minhas", "seu", "sua", "seus",
                "suas", "e", "ou", "mas", "porque", "embora", "que", "se", "quando", "enquanto",
                "eh", "hum", "ãh",
            ],
            wantMoreOutsideQuestions: [
                "de", "em", "com", "por", "para", "pra", "sem", "sobre", "entre", "até", "desde",
                "como", "é", "são", "está", "estou", "sou", "me",
            ],
            wantMoreAfter: ["depois": ["e"], "então": ["e"], "aí": ["e"]],
            mayGoOn: [
                "o", "a", "as", "um", "uma", "era", "eram", "foi", "tem", "tenho", "têm", "posso",
                "pode", "quero", "quer", "queria", "preciso", "mais", "pois", "depois",
                "então", "aí", "este", "esta", "esse", "essa", "eu", "onde", "quem", "lhe",
            ],
            questionWords: [
                "que", "quê", "qual", "quais", "quem", "onde", "aonde", "quando", "como", "quanto",
                "quanta", "quantos", "quantas",
            ],
            numbers: [
                "zero", "um", "uma", "dois", "duas", "três", "quatro", "cinco", "seis", "meia",
                "sete", "oito", "nove", "dez", "onze", "doze", "treze", "catorze", "quatorze",
                "quinze", "dezesseis", "dezasseis", "dezessete", "dezassete", "dezoito", "dezenove",
                "dezanove", "vinte", "trinta", "quarenta", "cinquenta", "sessenta", "setenta",
                "oitenta", "noventa", "cem", "cento", "mil", "dobro",
            ],
            roundNumbers: ["milhão", "milhões"]),
        assents: AssentWords(
            words: [
                "ah", "aham", "ahã", "uhum", "sim", "ok", "okay", "tá", "certo", "claro", "bom",
                "boa", "bem", "beleza", "legal", "perfeito", "exato", "exatamente", "isso",
                "entendi", "entendo", "percebi", "ótimo", "hm", "hmm", "mhm", "mm", "oh", "pois",
                "verdade", "sério", "obrigado", "obrigada",
            ],
            phrases: [
                ["está", "bem"], ["tá", "bom"], ["tudo", "bem"], ["muito", "bem"],
                ["com", "certeza"], ["pois", "é"], ["é", "verdade"], ["isso", "mesmo"],
                ["de", "acordo"], ["estou", "a", "ver"],
            ]),
        commands: [
            "não", "espera", "espere", "esperem", "para", "pare", "parem", "pera", "peraí", "chega",
            "desculpa", "desculpe", "perdão", "licença", "momento", "alô", "olá", "silêncio", "mas",
            "cancela", "cancele", "calma",
        ],
        questions: QuestionWords(
            details: [
                "número", "telefone", "celular", "telemóvel", "endereço", "morada", "rua", "nome",
                "sobrenome", "apelido", "data", "nascimento", "email", "mail", "soletrar",
                "soletre", "código", "cep", "conta", "cartão", "referência", "pedido", "matrícula",
                "senha", "cpf", "nif", "iban", "letras", "dígitos",
            ],
            requests: [
                "dar", "dá", "dê", "dizer", "diga", "diz", "soletrar", "soletre", "soletra",
                "informar", "informe", "indicar", "indique", "repetir", "repita", "repete",
                "fornecer", "forneça", "ditar", "preciso",
            ],
            choices: ["ou"]),
        clauses: ClauseWords(
            abbreviations: [
                "av", "apto", "cap", "dr", "dra", "etc", "ex", "exmo", "fig", "gov", "max", "min",
                "nº", "pág", "pp", "prof", "profa", "sr", "sra", "srta", "sta", "tel", "vol", "jan",
                "fev", "abr", "ago", "nov", "dez",
            ],
            conjunctions: [
                "como", "e", "embora", "enquanto", "então", "mas", "onde", "ou", "pois", "porque",
                "quando", "que", "se",
            ]),
        millisecondsPerByte: 65)
}
