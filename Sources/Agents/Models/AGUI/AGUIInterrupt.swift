// An interrupt: a run has ended with a question, and a later run that answers it goes on from there.
// The question is spoken. The user's next words are the answer, in the form that the agent asks for.
//
// Source: AG-UI 1.0, `Interrupt`, `ResumeEntry`.

import Codec

/// An interrupt that waits for its answer.
struct AGUIInterrupt: Equatable, Sendable {
    /// The form of the answer, from the interrupt's `responseSchema`.
    enum Form: Equatable, Sendable {
        /// The user's words, as a string. Also where there is no schema.
        case words
        /// True for a yes.
        case consent
        /// An object with a truth value, as for the approval of a tool call. On a no, the words are
        /// its reason, where there is a member for it.
        case approval(key: String, reason: String?)
        /// An object with the user's words as one member.
        case member(key: String)
    }

    /// The id that the answer names; nil for LangGraph's event `on_interrupt`, which has none.
    var id: String?
    /// The call that waits for approval, or nil.
    var toolCallID: String?
    var form = Form.words

    /// An interrupt without an id: CUSTOM `on_interrupt`. Its answer is
    /// `forwardedProps.command.resume`.
    static let unnamed = AGUIInterrupt()

    private init() {}

    /// An interrupt of a memento.
    init(id: String?, toolCallID: String?, form: Form) {
        self.id = id
        self.toolCallID = toolCallID
        self.form = form
    }

    /// Reads an interrupt of RUN_FINISHED; nil without an id.
    init?(_ value: JSONValue) {
        guard let id = value["id"]?.string else { return nil }
        self.id = id
        toolCallID = value["toolCallId"]?.string
        form = value["responseSchema"].map(Form.init) ?? .words
    }

    /// The words to speak, or nil. `metadata.speech` is for speech alone: `message` is also what a
    /// page shows, and Pydantic AI writes JSON into it. `reason` is often a code, not a sentence.
    static func question(_ value: JSONValue) -> String? {
        for text in [value["metadata"]?["speech"]?.string, value["message"]?.string] {
            if let text, !text.isEmpty { return text }
        }
        guard let reason = value["reason"]?.string, reason.contains(" ") else { return nil }
        return reason
    }

    /// The answer as JSON, and whether it has all the words.
    func answer(_ words: String) -> (json: RawJSON, hasWords: Bool) {
        switch form {
        case .words: return (RawJSON.string(words), true)
        case .consent: return (RawJSON(SpokenConsent.isGiven(in: words) ? "true" : "false"), false)
        case .approval(let key, let reason):
            let isGiven = SpokenConsent.isGiven(in: words)
            let hasWords = !isGiven && reason != nil
            let json = RawJSON.object { json in
                json.key(text: key)
                json.bool(isGiven)
                if hasWords, let reason {
                    json.key(text: reason)
                    json.string(words)
                }
            }
            return (json, hasWords)
        case .member(let key):
            let json = RawJSON.object { json in
                json.key(text: key)
                json.string(words)
            }
            return (json, true)
        }
    }
}

extension AGUIInterrupt.Form {
    /// The form that a JSON Schema asks for; words where it is another than those above.
    init(_ schema: JSONValue) {
        self = .words
        switch schema["type"]?.string {
        case "boolean": self = .consent
        case "object":
            guard let properties = schema["properties"]?.members else { return }
            let required = schema["required"]?.elements?.compactMap(\.string) ?? []
            var truths: [String] = []
            var texts: [String] = []
            for (key, property) in properties {
                switch property["type"]?.string {
                case "boolean": truths.append(key)
                case "string": texts.append(key)
                default: break
                }
            }
            let reason = texts.first { $0 == "reason" } ?? texts.first
            if let key = truths.first(where: required.contains) {
                self = .approval(key: key, reason: reason)
            } else if let key = texts.first(where: required.contains) ?? texts.first {
                self = .member(key: key)
            } else if let key = truths.first {
                self = .approval(key: key, reason: nil)
            }
        default: break
        }
    }
}

extension RawJSON {
    /// A JSON string.
    fileprivate static func string(_ text: String) -> RawJSON {
        RawJSON(String(decoding: encodedJSON { $0.string(text) }, as: UTF8.self))
    }
}

/// Whether an answer in words agrees.
enum SpokenConsent {
    private static let yes: Set<Substring> = [
        "yes", "yeah", "yep", "yup", "sure", "ok", "okay", "fine", "correct", "agreed", "approve",
        "approved", "confirm", "confirmed", "absolutely", "definitely", "certainly", "please",
        "ja", "jawohl", "gerne", "genau", "richtig", "einverstanden", "oui", "accord", "volontiers",
        "sí", "claro", "vale", "sì", "certo", "sim", "graag",
    ]
    private static let yesPhrases = ["go ahead", "do it", "do that"]
    /// Words of a refusal, and of an answer that is not only a yes.
    private static let no: Set<Substring> = [
        "no", "nope", "not", "don't", "dont", "never", "wait", "stop", "but", "instead", "why",
        "what", "how", "nein", "nicht", "kein", "aber", "warte", "non", "pas", "mais", "attendez",
        "pero", "espera", "ma", "não", "mas", "nee", "niet", "maar",
    ]

    /// Whether the words say yes, and contain no objection. In doubt the answer is no: the agent
    /// asks again, whereas a wrong yes does what the user did not want.
    static func isGiven(in words: String) -> Bool {
        let text = words.lowercased().map { $0 == "’" ? "'" : $0 }
        guard !text.contains("?") else { return false }
        let parts = text.split { !$0.isLetter && $0 != "'" }.map { String($0)[...] }
        guard !parts.contains(where: no.contains) else { return false }
        let joined = parts.joined(separator: " ")
        return parts.contains(where: yes.contains) || yesPhrases.contains { joined.contains($0) }
    }
}
