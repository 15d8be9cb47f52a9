// JSON Patch (RFC 6902) on the tree that keeps an agent's state: the RFC's examples, and patches
// that must not apply.

import Codec
import Testing

@testable import Agents

@Suite struct JSONPatchTests {
    private func tree(_ text: String) throws -> JSONTree {
        // A document is an object or an array, so a single value is read out of an array.
        let list = try JSONParser().parse("[\(text)]")
        return try #require(list.elements?.first { _ in true }.flatMap { JSONTree($0) })
    }

    private func text(_ tree: JSONTree) -> String {
        String(decoding: encodedJSON { tree.write(to: &$0) }, as: UTF8.self)
    }

    private func patched(
        _ document: String, _ patch: String, maxBytes: Int = 4_096
    ) throws -> String {
        var tree = try tree(document)
        let parsed = try JSONParser().parse(patch)
        let operations = try parsed.elements?.map { try JSONPatchOperation($0) } ?? []
        try tree.apply(operations, maxBytes: maxBytes)
        return text(tree)
    }

    @Test(arguments: [
        // RFC 6902 Appendix A.
        (
            #"{"foo":"bar"}"#, #"{"op":"add","path":"/baz","value":"qux"}"#,
            #"{"foo":"bar","baz":"qux"}"#
        ),
        (
            #"{"foo":["bar","baz"]}"#, #"{"op":"add","path":"/foo/1","value":"qux"}"#,
            #"{"foo":["bar","qux","baz"]}"#
        ),
        (#"{"baz":"qux","foo":"bar"}"#, #"{"op":"remove","path":"/baz"}"#, #"{"foo":"bar"}"#),
        (
            #"{"foo":["bar","qux","baz"]}"#, #"{"op":"remove","path":"/foo/1"}"#,
            #"{"foo":["bar","baz"]}"#
        ),
        (
            #"{"foo":"bar","baz":"qux"}"#, #"{"op":"replace","path":"/baz","value":"boo"}"#,
            #"{"foo":"bar","baz":"boo"}"#
        ),
        (
            #"{"foo":{"a":"b","w":"f"},"q":{"c":"g"}}"#,
            #"{"op":"move","from":"/foo/w","path":"/q/t"}"#,
            #"{"foo":{"a":"b"},"q":{"c":"g","t":"f"}}"#
        ),
        (
            #"{"foo":["all","grass","cows","eat"]}"#,
            #"{"op":"move","from":"/foo/1","path":"/foo/3"}"#,
            #"{"foo":["all","cows","eat","grass"]}"#
        ),
        (#"{"a":1}"#, #"{"op":"test","path":"/a","value":1.0},{"op":"remove","path":"/a"}"#, "{}"),
        (
            #"{"foo":"bar"}"#, #"{"op":"add","path":"/child","value":{"g":{}}}"#,
            #"{"foo":"bar","child":{"g":{}}}"#
        ),
        (#"{"/":9,"~1":10}"#, #"{"op":"test","path":"/~01","value":10}"#, #"{"/":9,"~1":10}"#),
        (
            #"{"foo":["bar"]}"#, #"{"op":"add","path":"/foo/-","value":["abc"]}"#,
            #"{"foo":["bar",["abc"]]}"#
        ),
        // The whole document, an empty key, null, a copy.
        (#"{"a":1}"#, #"{"op":"replace","path":"","value":[2]}"#, "[2]"),
        (#"{"":1}"#, #"{"op":"replace","path":"/","value":null}"#, #"{"":null}"#),
        (
            #"{"a":{"b":[1,2]}}"#, #"{"op":"copy","from":"/a/b/0","path":"/a/c"}"#,
            #"{"a":{"b":[1,2],"c":1}}"#
        ),
        (#"{"a":1}"#, #"{"op":"move","from":"/a","path":"/a"}"#, #"{"a":1}"#),
        (
            #"{"a":{"x":1,"y":[2]}}"#, #"{"op":"test","path":"/a","value":{"y":[2],"x":1}}"#,
            #"{"a":{"x":1,"y":[2]}}"#
        ),
    ])
    func applies(document: String, operations: String, expected: String) throws {
        let result = try patched(document, "[\(operations)]")
        #expect(try tree(result).isEqual(to: tree(expected)), "\(result)")
    }

    @Test(arguments: [
        (#"{"op":"remove","path":"/b"}"#, JSONPatchError.missingTarget),
        (#"{"op":"replace","path":"/b","value":1}"#, .missingTarget),
        (#"{"op":"add","path":"/b/c","value":1}"#, .missingTarget),
        (#"{"op":"add","path":"/a/3","value":1}"#, .missingTarget),
        (#"{"op":"add","path":"/a/01","value":1}"#, .invalidPointer),
        (#"{"op":"add","path":"/a/x","value":1}"#, .invalidPointer),
        (#"{"op":"add","path":"/a/99999999999999999999","value":1}"#, .invalidPointer),
        (#"{"op":"remove","path":"/a/-"}"#, .invalidPointer),
        (#"{"op":"remove","path":"a"}"#, .invalidPointer),
        (#"{"op":"remove","path":"/~2"}"#, .invalidPointer),
        (#"{"op":"remove","path":"/~"}"#, .invalidPointer),
        (#"{"op":"remove","path":""}"#, .missingTarget),
        (#"{"op":"test","path":"/a","value":[1]}"#, .testFailed),
        (#"{"op":"test","path":"/a/0","value":"1"}"#, .testFailed),
        (#"{"op":"move","from":"/a","path":"/a/0"}"#, .invalidOperation),
        (#"{"op":"add","path":"/b"}"#, .invalidOperation),
        (#"{"op":"copy","path":"/b"}"#, .invalidOperation),
        (#"{"op":"jump","path":"/b"}"#, .invalidOperation),
        (#"{"path":"/b"}"#, .invalidOperation),
        (#""add""#, .invalidOperation),
    ])
    func refuses(operation: String, error: JSONPatchError) {
        #expect(throws: error) { try patched(#"{"a":[1,2]}"#, "[\(operation)]") }
    }

    @Test func copiesCannotGrowWithoutALimit() {
        let doubling = #"{"op":"copy","from":"","path":"/a"}"#
        #expect(throws: JSONPatchError.tooDeep) {
            try patched(
                "{}", "[\(Array(repeating: doubling, count: 60).joined(separator: ","))]",
                maxBytes: 1 << 30)
        }
        let growing = #"{"op":"copy","from":"/a","path":"/a/-"}"#
        #expect(throws: JSONPatchError.tooLarge) {
            try patched(
                #"{"a":["0123456789"]}"#,
                "[\(Array(repeating: growing, count: 40).joined(separator: ","))]")
        }
        let operation = #"{"op":"test","path":"","value":{}}"#
        #expect(throws: JSONPatchError.tooLarge) {
            try patched(
                "{}",
                "[\(Array(repeating: operation, count: 1_025).joined(separator: ","))]")
        }
    }

    @Test func aDeepPointerIsRefused() {
        let path = String(repeating: "/a", count: 5_000)
        #expect(throws: JSONPatchError.tooDeep) {
            try patched("{}", #"[{"op":"add","path":"\#(path)","value":1}]"#)
        }
    }

    @Test func randomPatchesNeverTrap() throws {
        var random = SplitMix(state: 4)
        let paths = ["", "/", "/a", "/a/0", "/a/-", "/a/1/b", "/b", "/b/c", "/~0", "/b/c/0"]
        let values = ["1", #""x""#, "[]", "{}", #"{"c":[1,{"d":2}]}"#, "[[1],2]"]
        let names = ["add", "remove", "replace", "move", "copy", "test"]
        for _ in 0..<2_000 {
            let operations = (0..<6).map { _ in
                #"{"op":"\#(names.randomElement(using: &random)!)","path":"\#(paths.randomElement(using: &random)!)","from":"\#(paths.randomElement(using: &random)!)","value":\#(values.randomElement(using: &random)!)}"#
            }
            do {
                let result = try patched(
                    #"{"a":[1,{"b":2}],"b":{"c":[]}}"#, "[\(operations.joined(separator: ","))]")
                _ = try tree(result)
            } catch is JSONPatchError {
                continue
            }
        }
    }
}
