// Header fields that repeat what a request's body holds, so that proxies can route requests without
// reading bodies: the name of a tool, and the arguments that its schema marks with `x-mcp-header`.
// MCPToolList reads the marks once per list; MCPStreamableHTTP sends the fields.
//
// Invariant: a field's value is printable ASCII, whatever a model or a server wrote. Everything else
// is sent as Base64 between marks, as the protocol wants.
//
// Source: MCP 2026-07-28, "Transports", "Custom headers"; RFC 9110 §5.6.2.

import Codec
import Session

/// An argument of a tool that is repeated in a header field.
struct MCPParameterHeader: Equatable, Sendable {
    /// Most marked arguments of one tool. 32: servers limit a request's head to 16 KiB or little
    /// more.
    private static let maxHeaders = 32
    /// Most bytes of a field's value. 4 KiB: the same reason.
    private static let maxValueBytes = 4 << 10

    /// The schema of a tool has marks that the protocol forbids; such a tool is not offered.
    struct InvalidMark: Error {}

    /// The argument: its name, or the names from the outermost object on.
    let path: [String]
    /// The field is `Mcp-Param-` and this.
    let suffix: String
    /// Whether the schema declares an integer, which is written without a fraction.
    let isInteger: Bool

    /// The marked arguments of a tool's input schema.
    /// - Throws: `InvalidMark`.
    static func all(in schema: JSONValue) throws(InvalidMark) -> [MCPParameterHeader] {
        var headers: [MCPParameterHeader] = []
        try collect(from: schema, at: [], into: &headers)
        return headers
    }

    /// Visits every place of a schema that holds a schema; the parser has limited its depth.
    /// - Parameter path: nil behind any keyword but `properties`, where no mark is allowed.
    private static func collect(
        from schema: JSONValue, at path: [String]?, into headers: inout [MCPParameterHeader]
    ) throws(InvalidMark) {
        guard let members = schema.members else { return }
        if let mark = schema["x-mcp-header"] {
            try add(mark, of: schema, at: path, to: &headers)
        }
        for (key, value) in members {
            switch key {
            case "properties":
                for (name, inner) in value.namedSchemas {
                    try collect(from: inner, at: path.map { $0 + [name] }, into: &headers)
                }
            case "items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames",
                "unevaluatedProperties", "not", "if", "then", "else", "contentSchema":
                try collect(from: value, at: nil, into: &headers)
            case "allOf", "anyOf", "oneOf", "prefixItems":
                guard let elements = value.elements else { continue }
                for inner in elements { try collect(from: inner, at: nil, into: &headers) }
            case "patternProperties", "dependentSchemas", "$defs", "definitions":
                for (_, inner) in value.namedSchemas {
                    try collect(from: inner, at: nil, into: &headers)
                }
            default: continue
            }
        }
    }

    private static func add(
        _ mark: JSONValue, of schema: JSONValue, at path: [String]?,
        to headers: inout [MCPParameterHeader]
    ) throws(InvalidMark) {
        guard let path, !path.isEmpty, let suffix = mark.string, suffix.isToken,
            let type = schema["type"]?.string, ["string", "integer", "boolean"].contains(type),
            headers.count < maxHeaders,
            !headers.contains(where: { $0.suffix.lowercased() == suffix.lowercased() })
        else { throw InvalidMark() }
        headers.append(
            MCPParameterHeader(path: path, suffix: suffix, isInteger: type == "integer"))
    }

    /// The fields for a call with these arguments. An argument that is absent, null or not a plain
    /// value has none.
    /// - Throws: `MCPCallError.execution` for a value that is too long for a field.
    static func fields(
        _ headers: [MCPParameterHeader], of arguments: RawJSON
    ) throws(MCPCallError) -> [(name: String, value: String)] {
        guard !headers.isEmpty,
            let root = try? JSONParser(limits: .ofAnAnswer).parse(arguments.text)
        else { return [] }
        var fields: [(name: String, value: String)] = []
        for header in headers {
            var value: JSONValue? = root
            for name in header.path { value = value?.member(named: name) }
            guard let text = value.flatMap({ plainText(of: $0, isInteger: header.isInteger) })
            else { continue }
            let content = encoded(text)
            guard content.utf8.count <= maxValueBytes else {
                throw .execution(
                    message: "The argument '\(header.path.joined(separator: "."))' is too long.")
            }
            fields.append((name: "Mcp-Param-" + header.suffix, value: content))
        }
        return fields
    }

    private static func plainText(of value: JSONValue, isInteger: Bool) -> String? {
        switch value.kind {
        case .bool: value.bool == true ? "true" : "false"
        case .string: value.string
        case .number: (isInteger ? value.int.map(String.init) : nil) ?? value.raw.text
        case .null, .array, .object: nil
        }
    }

    /// A text as a field's value: itself where a field may hold it, otherwise Base64 between marks.
    /// An empty value is marked too, since libcurl omits an empty field.
    static func encoded(_ text: String) -> String {
        let isPrintable = text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        let looksEncoded = text.hasPrefix("=?base64?") && text.hasSuffix("?=")
        if isPrintable, !text.isEmpty, !text.hasPrefix(" "), !text.hasSuffix(" "), !looksEncoded {
            return text
        }
        return text.isEmpty ? "=?base64??=" : "=?base64?\(Base64.text(of: Array(text.utf8)))?="
    }
}

extension JSONValue {
    /// The member of an object under a name that is not known at compile time. If a name is
    /// repeated, its last member counts.
    func member(named name: String) -> JSONValue? {
        var found: JSONValue?
        guard let members else { return nil }
        for (key, value) in members where key == name { found = value }
        return found
    }

    /// The members of an object of schemas; none for any other value.
    fileprivate var namedSchemas: [(key: String, value: JSONValue)] {
        members.map { Array($0) } ?? []
    }
}

extension String {
    /// Whether it is a token of RFC 9110 §5.6.2, as the name of a field must be.
    fileprivate var isToken: Bool {
        !isEmpty
            && utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}
