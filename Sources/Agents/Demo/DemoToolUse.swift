// How the demo agent uses function tools without a language model. It calls the function whose name
// occurs in the user's words, takes the arguments from those words, and reads out the function's
// output. This is only meant for trying a client's function calls.

import Codec
import Session

/// Chooses a function and its arguments by matching words.
enum DemoToolUse {
    /// A function call for the client to perform.
    struct Call: Equatable {
        var callID: String
        var name: String
        /// JSON text.
        var arguments: String
    }

    /// Parts of a function's name that a user need not say: "weather" asks for `get_weather`.
    private static let unspokenVerbs: Set = [
        "get", "set", "fetch", "do", "run", "call", "make", "find", "the", "a", "of", "for", "to",
        "current", "function", "tool",
    ]
    private static let prepositions: Set = ["in", "at", "for", "of", "about", "to", "on", "named"]

    /// The call that the user's last message asks for, or nil when it asks for none.
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

    /// A function's output in a form that can be spoken: without the brackets and quotes of JSON.
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

    /// The words of a name in lower case. `getWeather`, `get-weather` and `get_weather` give the
    /// same.
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

    /// The arguments as JSON: one value for each property of the tool's schema, in the schema's
    /// order. A text is the words after the last preposition, or all words; a number is the first
    /// number.
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
            json.object { _ in }
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
