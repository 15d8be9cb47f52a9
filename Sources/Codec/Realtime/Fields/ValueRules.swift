// The rules for single values: texts, numbers, choices, objects, lists. A rule's error message and
// its description for the documents stand side by side. Rules for one field only are beside the
// table of its object.

// MARK: - Texts

/// A text of up to `maxTextBytes`.
struct TextRule: ValueRule {
    var schema: ValueSchema { .text(atMost: ClientEventLimits.maxTextBytes) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> String {
        try value.text(at: path.text, atMost: ClientEventLimits.maxTextBytes)
    }
}

/// An id or a name of up to `maxNameBytes`.
struct NameRule: ValueRule {
    let mayBeEmpty: Bool

    var schema: ValueSchema {
        let maximum = ClientEventLimits.maxNameBytes
        return mayBeEmpty ? .text(atMost: maximum) : .identifier(atMost: maximum)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> String {
        let name = try value.text(at: path.text, atMost: ClientEventLimits.maxNameBytes)
        guard mayBeEmpty || !name.isEmpty else {
            throw .invalid(path.text, "expected a text, got \"\"")
        }
        return name
    }
}

/// An array of at most `maximum` names.
struct NamesRule: ValueRule {
    let maximum: Int

    var schema: ValueSchema {
        .list(.text(atMost: ClientEventLimits.maxNameBytes), atMost: maximum)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> [String] {
        try value.list(at: path, atMost: maximum) { (name, path) throws(ClientEventError) in
            try name.text(at: path, atMost: ClientEventLimits.maxNameBytes)
        }
    }
}

extension ValueRule where Self == NamesRule {
    /// An array of at most this many names.
    static func names(atMost maximum: Int) -> NamesRule { NamesRule(maximum: maximum) }
}

extension ValueRule where Self == TextRule {
    /// A text of up to `maxTextBytes`.
    static var text: TextRule { TextRule() }
}

extension ValueRule where Self == NameRule {
    /// An id or a name that may be empty.
    static var anyName: NameRule { NameRule(mayBeEmpty: true) }
    /// An id or a name.
    static var name: NameRule { NameRule(mayBeEmpty: false) }
}

extension JSONValue {
    /// A string of at most `maximum` UTF-8 bytes.
    func text(
        at path: @autoclosure () -> String, atMost maximum: Int
    ) throws(ClientEventError) -> String {
        guard let bytes = utf8 else { throw .wrongType(path(), expected: "a string", self) }
        guard bytes.count <= maximum else {
            throw .tooMany(path(), "bytes", atMost: maximum, got: bytes.count)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

// MARK: - Numbers and truth values

/// A whole number within a range.
struct IntegerRule: ValueRule {
    let range: ClosedRange<Int>

    var schema: ValueSchema { .integer(range) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Int {
        // Built for an error only: appends with a `sequence` arrive fifty times a second.
        var expected: String {
            range.upperBound == .max
                ? "an integer of \(range.lowerBound) or more"
                : "an integer from \(range.lowerBound) to \(range.upperBound)"
        }
        guard let integer = value.int, range.contains(integer) else {
            throw .mismatch(path.text, expected: expected, value, of: .number)
        }
        return integer
    }
}

/// A number within a range.
struct NumberRule: ValueRule {
    let range: ClosedRange<Double>

    var schema: ValueSchema { .number(range) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Double {
        guard let number = value.double, range.contains(number) else {
            let expected = "a number from \(range.lowerBound) to \(range.upperBound)"
            throw .mismatch(path.text, expected: expected, value, of: .number)
        }
        return number
    }
}

/// `true` or `false`.
struct BooleanRule: ValueRule {
    var schema: ValueSchema { .boolean }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Bool {
        guard let bool = value.bool else {
            throw .wrongType(path.text, expected: "true or false", value)
        }
        return bool
    }
}

/// One of the names of an enumeration.
struct ChoiceRule<Choice: CaseIterable & RawRepresentable<String>>: ValueRule {
    var schema: ValueSchema { .choice(Choice.allCases.map(\.rawValue)) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Choice {
        guard let name = value.string, let choice = Choice(rawValue: name) else {
            let expected = "one of \(quotedList(Choice.allCases.map(\.rawValue)))"
            throw .mismatch(path.text, expected: expected, value, of: .string)
        }
        return choice
    }
}

extension ValueRule where Self == IntegerRule {
    /// A whole number within a range.
    static func integer(in range: ClosedRange<Int>) -> IntegerRule { IntegerRule(range: range) }
}

extension ValueRule where Self == NumberRule {
    /// A number within a range.
    static func number(in range: ClosedRange<Double>) -> NumberRule { NumberRule(range: range) }
}

extension ValueRule where Self == BooleanRule {
    /// `true` or `false`.
    static var boolean: BooleanRule { BooleanRule() }
}

extension ValueRule {
    /// One of the names of an enumeration.
    static func choice<Choice>(of _: Choice.Type) -> Self where Self == ChoiceRule<Choice> {
        ChoiceRule()
    }
}

// MARK: - Objects and arrays

/// An object whose fields are read individually.
struct NestedRule<Fields: FieldTable>: ValueRule {
    var schema: ValueSchema { .object(Fields.table) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> EventFields {
        try EventFields(value, path: path.text)
    }
}

/// An object that is read as one value.
struct ObjectRule<Object: ReadableObject>: ValueRule {
    var schema: ValueSchema { Object.schema }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Object {
        try Object(EventFields(value, path: path.text))
    }
}

/// An array of objects.
struct ListRule<Element: ReadableObject>: ValueRule {
    let maximum: Int

    var schema: ValueSchema { .list(Element.schema, atMost: maximum) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> [Element] {
        try value.objects(at: path, atMost: maximum, Element.init)
    }
}

extension JSONValue {
    /// The elements of an array of at most `maximum`, converted by `read`, which also gets their
    /// paths.
    func list<Element>(
        at path: FieldPath, atMost maximum: Int,
        _ read: (JSONValue, _ path: String) throws(ClientEventError) -> Element
    ) throws(ClientEventError) -> [Element] {
        let path = path.text
        guard let elements else { throw .wrongType(path, expected: "an array", self) }
        guard elements.count <= maximum else {
            throw .tooMany(path, "elements", atMost: maximum, got: elements.count)
        }
        var result: [Element] = []
        result.reserveCapacity(elements.count)
        for element in elements { result.append(try read(element, "\(path)[\(result.count)]")) }
        return result
    }

    /// The elements of an array of at most `maximum` objects, converted by `read`.
    func objects<Element>(
        at path: FieldPath, atMost maximum: Int,
        _ read: (EventFields) throws(ClientEventError) -> Element
    ) throws(ClientEventError) -> [Element] {
        try list(at: path, atMost: maximum) { (element, path) throws(ClientEventError) in
            try read(EventFields(element, path: path))
        }
    }
}

/// An object that is kept unchanged.
struct RawObjectRule: ValueRule {
    var schema: ValueSchema { .anyObject }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> RawJSON {
        let fields = try EventFields(value, path: path.text)
        return try fields.raw(fields.object, fields.path)
    }
}

extension ValueRule {
    /// An object whose fields are read individually.
    static func object<Fields>(with _: Fields.Type) -> Self where Self == NestedRule<Fields> {
        NestedRule()
    }

    /// An object that is read as one value.
    static func object<Object>(_: Object.Type) -> Self where Self == ObjectRule<Object> {
        ObjectRule()
    }

    /// An array of at most this many objects, each read as one value.
    static func list<Element>(
        of _: Element.Type, atMost maximum: Int
    ) -> Self where Self == ListRule<Element> {
        ListRule(maximum: maximum)
    }
}

extension ValueRule where Self == RawObjectRule {
    /// An object that is kept unchanged.
    static var rawObject: RawObjectRule { RawObjectRule() }
}
