// Questions of a tool to the user: a server of a stateless revision may answer a call with
// `input_required` instead of a result, and wants the same call again with the answers.
//
// In a conversation the model asks the user. So the call fails with a message for the model, which
// has the question and the fields of its form. The model asks, and calls the tool again with one
// more argument, `user_answers`. That call begins anew: the server asks again, and is answered from
// the argument at once. So nothing of a question is kept between two calls, and the server's
// `requestState`, which expires, is always fresh.
//
// Only forms are announced as a capability. A server that asks for anything else (a web page, a
// model's reply, folders) gets no answer, and the call fails.
//
// Source: MCP 2026-07-28, "Input required", "Elicitation".

import Codec
import Session

/// The arguments of a call, apart from the user's answers.
struct MCPArguments {
    /// The arguments that the server gets.
    let json: RawJSON
    let answers: MCPAnswers

    /// - Parameters:
    ///   - text: a JSON object as the model wrote it.
    ///   - ownsAnswers: whether the tool has an argument of its own with the name of the answers.
    /// - Throws: `MCPCallError.execution` where the text is no JSON object.
    init(_ text: String, ownsAnswers: Bool) throws(MCPCallError) {
        guard let root = try? JSONParser(limits: .ofAnAnswer).parse(text),
            let members = root.members
        else { throw .execution(message: "The arguments are no JSON object.") }
        guard !ownsAnswers, let answers = root.member(named: MCPAnswers.argument) else {
            json = RawJSON(text)
            self.answers = MCPAnswers()
            return
        }
        self.answers = MCPAnswers(answers)
        json = .object { json in
            for (key, value) in members where key != MCPAnswers.argument {
                json.key(text: key)
                json.raw(value.raw)
            }
        }
    }
}

/// The user's answers, as a model wrote them.
struct MCPAnswers {
    /// The argument of a call that has them.
    static let argument = "user_answers"
    /// Its value where the user does not want to answer.
    fileprivate static let declined = "declined"

    private(set) var areDeclined = false
    private(set) var areGiven = false
    private var values: [String: RawJSON] = [:]

    fileprivate init() {}

    /// - Parameter value: an object with one plain value, or a list of texts, for each field. Other
    ///   values are dropped, as the protocol does not have them.
    fileprivate init(_ value: JSONValue) {
        areDeclined = value.string == Self.declined
        guard let members = value.members else { return }
        areGiven = true
        for (key, value) in members where value.isAnswer { values[key] = value.raw }
    }

    fileprivate subscript(_ name: String) -> RawJSON? { values[name] }
}

extension JSONValue {
    /// Whether a field of a form may have this value.
    fileprivate var isAnswer: Bool {
        switch kind {
        case .string, .number, .bool: true
        case .array: elements?.allSatisfy { $0.kind == .string } ?? false
        case .null, .object: false
        }
    }
}

/// A result of type `input_required`.
struct MCPInputRequest {
    /// Most questions in one result.
    private static let maxQuestions = 8
    /// Most bytes of the server's state, which each further request repeats. 64 KiB.
    private static let maxStateBytes = 64 << 10

    /// The questions; none: the server only wants to be asked again.
    let questions: [MCPQuestion]
    /// Goes back to the server unchanged.
    let state: String?

    /// - Throws: `MCPCallError.execution` for requests that have no answer here, and
    ///   `AgentError.malformedReply`.
    init(_ result: JSONValue) throws {
        state = result["requestState"]?.string
        guard (state?.utf8.count ?? 0) <= Self.maxStateBytes else {
            throw JSONRPCMessage.malformed("a request state of more than 64 KiB")
        }
        guard let requests = result["inputRequests"], !requests.isNull else {
            guard state != nil else { throw JSONRPCMessage.malformed("input required, but which?") }
            questions = []
            return
        }
        guard let members = requests.members, requests.count <= Self.maxQuestions else {
            throw JSONRPCMessage.malformed("no object of at most 8 input requests")
        }
        var taken: Set<String> = []
        questions = try members.map { try MCPQuestion(key: $0.key, $0.value, besides: &taken) }
    }

    /// The answers to all questions, as a further request of the call has them.
    /// - Parameter asked: the questions that were answered in this call before.
    /// - Throws: `MCPCallError.execution` where an answer is missing: it asks the model for it.
    func responses(
        from answers: MCPAnswers, asked: inout Set<MCPQuestion>
    ) throws(MCPCallError) -> RawJSON {
        // A question that comes again was not content with its answer.
        let isAnswered = questions.allSatisfy { $0.isAnswered(by: answers) && !asked.contains($0) }
        guard answers.areDeclined || isAnswered else {
            throw .execution(message: message(isRepeated: answers.areGiven))
        }
        asked.formUnion(questions)
        return .object { json in
            for question in questions {
                json.key(text: question.key)
                question.write(answers, to: &json)
            }
        }
    }

    /// The message for the model.
    private func message(isRepeated: Bool) -> String {
        let asked = questions.map(\.text).joined(separator: "\n")
        let kept = isRepeated ? " (beside the answers so far)" : ""
        let fields = questions.flatMap(\.fields).map(\.text).joined(separator: "\n")
        return """
            Nothing was done yet, because the tool has a question for the user:
            \(asked)
            Ask the user. Then call the tool again with the same arguments and with \
            "\(MCPAnswers.argument)", an object that has\(kept):
            \(fields.isEmpty ? "nothing (an empty object means yes)" : fields)
            If the user does not want to answer, "\(MCPAnswers.argument)" is \
            "\(MCPAnswers.declined)".
            """
    }
}

/// One question: a form.
struct MCPQuestion: Hashable {
    /// A field of the form.
    struct Field: Hashable {
        let name: String
        /// Its name among the answers: another one than its own where two forms have the same.
        let answer: String
        /// Its type, choices and description, for the model.
        let about: String
        let isRequired: Bool

        /// A line for the model.
        var text: String { "\(answer): \(about)" }
    }

    /// Most fields of one form.
    private static let maxFields = 32
    /// Most bytes of a field's name.
    private static let maxNameBytes = 256
    /// Most choices of one field that are shown.
    private static let maxChoices = 64
    /// Most characters of any text of a form that are shown.
    private static let maxCharacters = 1_000

    /// The server's name for the question.
    let key: String
    let text: String
    let fields: [Field]

    /// - Parameter taken: the names of fields among the answers, of this form and those before it.
    fileprivate init(
        key: String, _ request: JSONValue, besides taken: inout Set<String>
    ) throws {
        let method = request["method"]?.string ?? ""
        let parameters = request["params"]
        guard method == "elicitation/create" else {
            throw MCPCallError.execution(
                message: "The tool asks for input that cannot be given here: "
                    + "'\(method.prefix(64))'.")
        }
        guard parameters?["mode"]?.string ?? "form" == "form" else {
            throw MCPCallError.execution(
                message: "The tool wants the user to open a web page, which cannot be done here.")
        }
        guard let text = parameters?["message"]?.string,
            let schema = parameters?["requestedSchema"], schema.kind == .object
        else { throw JSONRPCMessage.malformed("a question without a text or a form") }
        self.key = key
        self.text = String(text.prefix(Self.maxCharacters))
        let required = Set(schema["required"]?.elements?.compactMap(\.string) ?? [])
        let properties = schema["properties"]
        guard let members = properties?.members, properties?.count ?? 0 <= Self.maxFields else {
            throw JSONRPCMessage.malformed("a form without fields, or with more than 32")
        }
        var fields: [Field] = []
        for (name, property) in members {
            guard name.utf8.count <= Self.maxNameBytes else {
                throw JSONRPCMessage.malformed("a field with a name of more than 256 bytes")
            }
            var answer = name
            var number = 1
            while !taken.insert(answer).inserted {
                number += 1
                answer = "\(name)_\(number)"
            }
            let isRequired = required.contains(name)
            fields.append(
                Field(
                    name: name, answer: answer, about: Self.about(property, name, isRequired),
                    isRequired: isRequired))
        }
        self.fields = fields
    }

    /// For example `string, required; one of "small", "large"; the size of the cup`.
    private static func about(_ property: JSONValue, _ name: String, _ isRequired: Bool) -> String {
        let type = property["type"]?.string ?? "string"
        var parts = ["\(type), \(isRequired ? "required" : "optional")"]
        let choices = choices(of: property)
        if !choices.isEmpty {
            let names = choices.map { "\"\($0)\"" }.joined(separator: ", ")
            parts.append("\(type == "array" ? "some" : "one") of \(names)")
        }
        for about in [property["title"]?.string, property["description"]?.string] {
            if let about, about.lowercased() != name.lowercased() { parts.append(about) }
        }
        return String(parts.joined(separator: "; ").prefix(maxCharacters))
    }

    /// The values of `enum`, or of `oneOf` and `anyOf` with their titles; of a list, of its items.
    private static func choices(of property: JSONValue) -> [String] {
        let values = property["items"] ?? property
        let plain = values["enum"]?.elements?.prefix(maxChoices).compactMap(\.string) ?? []
        guard plain.isEmpty else { return plain }
        let titled = values["oneOf"]?.elements ?? values["anyOf"]?.elements
        return titled?.prefix(maxChoices).compactMap { $0["const"]?.string } ?? []
    }

    fileprivate func isAnswered(by answers: MCPAnswers) -> Bool {
        answers.areGiven && fields.allSatisfy { !$0.isRequired || answers[$0.answer] != nil }
    }

    fileprivate func write(_ answers: MCPAnswers, to json: inout JSONWriter) {
        json.object { json in
            json.member("action", answers.areDeclined ? "decline" : "accept")
            guard !answers.areDeclined else { return }
            json.object("content") { json in
                for field in fields {
                    guard let value = answers[field.answer] else { continue }
                    json.key(text: field.name)
                    json.raw(value)
                }
            }
        }
    }
}
