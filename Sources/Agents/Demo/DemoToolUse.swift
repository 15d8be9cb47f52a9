// How the demo agent uses function tools without understanding language: it calls the function
// whose name the user's words contain, with arguments taken from those words, and reads out what
// comes back. Good for trying a client's function plumbing, and for nothing else.

import Codec
import Session

/// The demo agent's way with functions.
enum DemoToolUse {
    /// A call to make.
    struct Call: Equatable {
        var callID: String
        var name: String
        /// JSON text.
        var arguments: String
    }

    /// Parts of names that nobody says: `get_weather` is asked for with "weather".
    private static let unspokenVerbs: Set = [
        "get", "set", "fetch", "do", "run", "call", "make", "find", "the", "a", "of", "for", "to",
        "current", "function", "tool",
    ]
    private static let prepositions: Set = ["in", "at", "for", "of", "about", "to", "on", "named"]

    /// The call that answers the user's last words, or nil when there is none to make.
    static func call(for request: ModelRequest) -> Call? {
        guard case .user(let text)? = request.messages.last else { return nil }
        let words = DemoAgent.words(of: DemoAgent.beginning(of: text))
        let bare = Set(words.map(DemoAgent.bareWord))
        let tool: FunctionTool?
        switch request.toolChoice {
        case .none: tool = nil
        case .function(let name): tool = request.tools.first { $0.name == name }
        case .required: tool = request.tools.first { isNamed($0, in: bare) } ?? request.tools.first
        case .auto: tool = request.tools.first { isNamed($0, in: bare) }
        }
        guard let tool else { return nil }
        // The position in the conversation makes the id unique within it.
        return Call(
            callID: "call_demo_\(request.messages.count)", name: tool.name,
            arguments: arguments(for: tool, from: words))
    }

    /// `get_weather` → `Get weather`.
    static func spokenName(of name: String) -> String {
        let spoken = parts(of: name).joined(separator: " ")
        return spoken.prefix(1).uppercased() + spoken.dropFirst()
    }

    /// A function's output as it can be said: JSON loses its brackets and quotes.
    static func spokenText(of output: String) -> String {
        var spoken = ""
        for character in DemoAgent.beginning(of: output).prefix(400)
        where !"{}[]\"".contains(character) {
            spoken.append(character == "_" ? " " : character)
        }
        let words = spoken.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return words.isEmpty || ".!?".contains(words.last!) ? words : words + "."
    }

    private static func isNamed(_ tool: FunctionTool, in bare: Set<String>) -> Bool {
        let telling = parts(of: tool.name).filter { !unspokenVerbs.contains($0) }
        let asked = telling.isEmpty ? parts(of: tool.name) : telling
        return !asked.isEmpty && asked.allSatisfy(bare.contains)
    }

    /// The words of a name, in lower case: `getWeather`, `get-weather` and `get_weather` alike.
    private static func parts(of name: String) -> [String] {
        var parts: [String] = []
        var part = ""
        var wasLower = false
        for character in name {
            let isWordCharacter = character.isLetter || character.isNumber
            if !isWordCharacter || (character.isUppercase && wasLower) {
                if !part.isEmpty { parts.append(part) }
                part = ""
            }
            if isWordCharacter { part += character.lowercased() }
            wasLower = character.isLowercase
        }
        if !part.isEmpty { parts.append(part) }
        return parts
    }

    /// A value for every property of the tool's schema, in its order: the words after a
    /// preposition, or all of them, for a text; the first number for a number.
    private static func arguments(for tool: FunctionTool, from words: [String]) -> String {
        guard let schema = tool.parameters,
            let members = try? JSONParser().parse(schema.text)["properties"]?.members
        else { return "{}" }
        let arguments = members.map { key, property in
            let name = encodedJSON { $0.string(key) }
            let value = encodedJSON { write(property, from: words, to: &$0) }
            return String(decoding: name + [UInt8(ascii: ":")] + value, as: UTF8.self)
        }
        return "{" + arguments.joined(separator: ",") + "}"
    }

    private static func write(
        _ property: JSONValue, from words: [String], to json: inout JSONWriter
    ) {
        if var choices = property["enum"]?.elements, let first = choices.next() {
            json.raw(first.raw)
        } else if property["type"]?.isString("integer") == true {
            json.integer(words.compactMap { Int(DemoAgent.bareWord($0)) }.first ?? 0)
        } else if property["type"]?.isString("number") == true {
            json.number(
                words.compactMap { Double(DemoAgent.bareWord($0)) }.first(where: \.isFinite) ?? 0)
        } else if property["type"]?.isString("boolean") == true {
            json.bool(true)
        } else if property["type"]?.isString("array") == true {
            json.beginArray()
            json.endArray()
        } else if property["type"]?.isString("object") == true {
            json.beginObject()
            json.endObject()
        } else {
            json.string(subject(of: words))
        }
    }

    /// "What is the weather in New York?" → "New York".
    private static func subject(of words: [String]) -> String {
        let preposition = words.lastIndex { prepositions.contains(DemoAgent.bareWord($0)) }
        let subject = preposition.map { words[($0 + 1)...] } ?? words[...]
        var text = (subject.isEmpty ? words[...] : subject).joined(separator: " ")
        while let last = text.last, ".!?,".contains(last) { text.removeLast() }
        return text
    }
}
