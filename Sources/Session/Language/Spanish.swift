// Spanish.

extension LanguageRules {
    /// Spanish. Its pace is that of English: the only speaker at hand is slow (85 ms a byte).
    static let spanish = LanguageRules(
        turnEnds: TurnEndWords(
            wantMore: [
                "el", "los", "las", "un", "al", "del", "mi", "mis", "tu", "tus", "su", "sus", "y",
                "e", "o", "u", "pero", "porque", "aunque", "sino", "ni", "que", "cuando",
                "mientras", "muy", "eh", "em",
            ],
            wantMoreOutsideQuestions: [
                "de", "a", "en", "con", "por", "para", "sin", "sobre", "entre", "hacia", "hasta",
                "desde", "según", "contra", "como", "es", "son", "está", "estoy", "soy", "me", "se",
                "le", "les", "nos", "te", "lo",
            ],
            wantMoreAfter: ["luego": ["y"], "después": ["y"], "entonces": ["y"]],
            mayGoOn: [
                "la", "una", "uno", "unos", "unas", "esta", "ese", "esa", "nuestro", "nuestra",
                "era", "eran", "fue", "hay", "tengo", "tiene", "tienen", "puedo", "puede", "quiero",
                "quiere", "quisiera", "necesito", "más", "pues", "luego", "entonces", "donde",
                "quien", "yo", "bueno",
            ],
            questionWords: [
                "qué", "quién", "quiénes", "cuál", "cuáles", "dónde", "adónde", "cuándo", "cómo",
                "cuánto", "cuánta", "cuántos", "cuántas",
            ],
            numbers: [
                "cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve",
                "diez", "once", "doce", "trece", "catorce", "quince", "dieciséis", "diecisiete",
                "dieciocho", "diecinueve", "veinte", "veintiuno", "veintidós", "veintitrés",
                "veinticuatro", "veinticinco", "veintiséis", "veintisiete", "veintiocho",
                "veintinueve", "treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta",
                "noventa", "cien", "ciento", "mil", "doble",
            ],
            roundNumbers: ["millón", "millones"]),
        assents: AssentWords(
            words: [
                "ah", "ajá", "aja", "sí", "si", "ok", "okay", "okey", "vale", "claro", "bien",
                "bueno", "perfecto", "exacto", "exactamente", "correcto", "entiendo", "entendido",
                "genial", "estupendo", "ya", "hm", "hmm", "mhm", "mm", "oh", "cierto", "verdad",
                "seguro", "gracias",
            ],
            phrases: [
                ["de", "acuerdo"], ["muy", "bien"], ["por", "supuesto"], ["está", "bien"],
                ["ya", "veo"], ["ya", "entiendo"], ["lo", "entiendo"], ["es", "verdad"],
                ["así", "es"], ["qué", "bien"],
            ]),
        commands: [
            "no", "espera", "espere", "espérate", "esperen", "para", "pare", "basta", "alto",
            "detente", "deténgase", "perdón", "perdona", "perdone", "disculpa", "disculpe",
            "momento", "oye", "oiga", "hola", "silencio", "pero", "cómo", "cancela", "cancele",
            "callate", "cállate",
        ],
        questions: QuestionWords(
            details: [
                "número", "teléfono", "móvil", "celular", "dirección", "calle", "nombre",
                "apellido", "apellidos", "fecha", "nacimiento", "correo", "email", "mail",
                "deletrear", "deletrearme", "deletree", "código", "cuenta", "tarjeta", "referencia",
                "pedido", "matrícula", "contraseña", "iban", "dni", "letras", "dígitos", "cifras",
            ],
            requests: [
                "dar", "darme", "dame", "deme", "da", "decir", "decirme", "dime", "dígame", "diga",
                "deletrear", "deletree", "deletrea", "deletrearme", "indicar", "indíqueme",
                "indicarme", "repetir", "repita", "repite", "dictar", "dícteme", "facilitar",
                "facilíteme", "necesito", "proporcionar",
            ],
            choices: ["o", "u"]),
        clauses: ClauseWords(
            abbreviations: [
                "aprox", "apdo", "av", "avda", "cap", "dr", "dra", "dto", "dña", "ej", "etc", "fig",
                "gral", "izq", "núm", "pág", "pp", "prof", "sr", "sra", "srta", "sta", "tel", "ud",
                "uds", "vol", "ene", "feb", "abr", "jun", "jul", "ago", "sept", "oct", "nov", "dic",
            ],
            conjunctions: [
                "aunque", "como", "cuando", "donde", "entonces", "mientras", "o", "pero", "porque",
                "pues", "que", "si", "sino", "y",
            ]),
        millisecondsPerByte: 65)
}
