// The schemas of tools as services get them. MCP lets a schema be {"type": "object"}, and official
// SDKs send that for a tool without parameters. OpenAI and others refuse it, and with it each
// request of the session: "object schema missing properties", "array schema missing items". So the
// missing members are added on the way out. They do not change the values that a schema allows. The
// client is shown the schema as its server has sent it.

import Codec
import Session

/// Completes the schemas of tools.
enum ToolSchema {
    /// The schema of a function that takes no arguments.
    static let none = RawJSON(#"{"type":"object","properties":{}}"#)

    /// A schema as services take it; nil where there is none.
    static func completed(_ schema: RawJSON?) -> RawJSON? {
        guard let schema else { return nil }
        guard let value = try? JSONParser(limits: .ofAnAnswer).parse(schema.text),
            value.kind == .object
        else { return none }
        // Nearly all are complete. Writing one anew would cost more than reading it.
        guard value["type"] == nil || isIncomplete(value) else { return schema }
        return RawJSON(
            String(
                decoding: encodedJSON { write(value, to: &$0, isOutermost: true) }, as: UTF8.self))
    }

    /// Members whose value is a schema, or a list of schemas.
    private static let schemas: Set = [
        "items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not", "if",
        "then",
        "else", "contains",
    ]
    /// Members whose value has a schema under each name.
    private static let named: Set = ["properties", "$defs", "definitions", "patternProperties"]

    /// Whether a schema, or one in it, lacks what services want.
    private static func isIncomplete(_ schema: JSONValue) -> Bool {
        if lacksProperties(schema) || lacksItems(schema) { return true }
        guard let members = schema.members else { return false }
        return members.contains { name, value in
            if isNothing(value, named: name) { return true }
            if named.contains(name) {
                return value.members?.contains { isIncomplete($0.value) } ?? false
            }
            guard schemas.contains(name) else { return false }
            return value.elements?.contains { isIncomplete($0) } ?? isIncomplete(value)
        }
    }

    /// Whether a member is a keyword that a library has written as `null`. Only keywords that allow
    /// any value may be null.
    private static func isNothing(_ value: JSONValue, named name: String) -> Bool {
        value.isNull && name != "default" && name != "const" && name != "example"
    }

    private static func lacksProperties(_ schema: JSONValue) -> Bool {
        isOfType("object", schema) && schema["properties"]?.kind != .object
    }

    private static func lacksItems(_ schema: JSONValue) -> Bool {
        let has = { (member: JSONValue?) in member.map { !$0.isNull } ?? false }
        return isOfType("array", schema) && !has(schema["items"]) && !has(schema["prefixItems"])
    }

    /// Whether values of a type fit: `type` is a name or a list of names.
    private static func isOfType(_ name: StaticString, _ schema: JSONValue) -> Bool {
        guard let type = schema["type"] else { return false }
        return type.isString(name) || type.elements?.contains { $0.isString(name) } ?? false
    }

    private static func write(
        _ schema: JSONValue, to json: inout JSONWriter, isOutermost: Bool = false
    ) {
        guard let members = schema.members else { return json.raw(schema.raw) }
        let lacksProperties =
            lacksProperties(schema) || isOutermost && schema["properties"]?.kind != .object
        json.object { json in
            if isOutermost, schema["type"]?.isNull ?? true { json.member("type", "object") }
            for (name, value) in members {
                if isNothing(value, named: name) || name == "properties" && lacksProperties {
                    continue
                }
                json.key(text: name)
                write(value, named: name, to: &json)
            }
            if lacksProperties { json.object("properties") { _ in } }
            if lacksItems(schema) { json.object("items") { _ in } }
        }
    }

    private static func write(_ value: JSONValue, named name: String, to json: inout JSONWriter) {
        if named.contains(name), let members = value.members {
            json.object { json in
                for (name, schema) in members {
                    json.key(text: name)
                    write(schema, to: &json)
                }
            }
        } else if schemas.contains(name), let elements = value.elements {
            json.array { json in
                for schema in elements { write(schema, to: &json) }
            }
        } else if schemas.contains(name) {
            write(value, to: &json)
        } else {
            json.raw(value.raw)
        }
    }
}
