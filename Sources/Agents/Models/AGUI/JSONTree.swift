// A JSON value that can be changed, and JSON Patch (RFC 6902) with JSON Pointer (RFC 6901) on it.
// AGUIState keeps an agent's state in it.
//
// Invariant: a tree is at most `maxDepth` deep, so that functions that visit it do not exhaust the
// stack. A patch that would make it deeper, or too large, does not apply.

import Codec

/// Why a patch does not apply.
enum JSONPatchError: Error, Equatable {
    /// An operation without a known `op`, a `path`, or the member that it requires (RFC 6902 §4).
    case invalidOperation
    /// Not a JSON Pointer (RFC 6901 §3).
    case invalidPointer
    /// The pointer refers to a value that does not exist, or an index outside of the array.
    case missingTarget
    /// A `test` found another value.
    case testFailed
    /// The result would be nested deeper than `JSONTree.maxDepth`.
    case tooDeep
    /// The patch has too many operations, or adds too much.
    case tooLarge
}

/// A JSON value.
indirect enum JSONTree: Sendable {
    /// A member of an object.
    struct Member: Sendable {
        let key: String
        var value: JSONTree
    }

    /// `null`, `true`, `false` or a number, as it was written.
    case literal(String)
    case string(String)
    case array([JSONTree])
    /// Members in the order of the document; keys are unique.
    case object([Member])

    /// Depth of nested arrays and objects. 48: a state that is written into another document stays
    /// within the 64 of JSONLimits.
    static let maxDepth = 48
    /// Operations of one patch.
    static let maxOperations = 1_024

    /// Copies a value of a parsed document; of repeated keys the last one counts. Nil where it is
    /// too deep.
    init?(_ value: JSONValue, maxDepth: Int = JSONTree.maxDepth) {
        switch value.kind {
        case .null, .bool, .number: self = .literal(value.raw.text)
        case .string: self = .string(value.string ?? "")
        case .array:
            guard maxDepth > 0, let elements = value.elements else { return nil }
            var trees: [JSONTree] = []
            trees.reserveCapacity(elements.count)
            for element in elements {
                guard let tree = JSONTree(element, maxDepth: maxDepth - 1) else { return nil }
                trees.append(tree)
            }
            self = .array(trees)
        case .object:
            guard maxDepth > 0, let found = value.members else { return nil }
            var members: [Member] = []
            var places: [String: Int] = [:]
            for (key, value) in found {
                guard let tree = JSONTree(value, maxDepth: maxDepth - 1) else { return nil }
                if let place = places[key] {
                    members[place].value = tree
                } else {
                    places[key] = members.count
                    members.append(Member(key: key, value: tree))
                }
            }
            self = .object(members)
        }
    }

    /// Bytes of the value as JSON, without the escapes of its strings.
    var byteCount: Int {
        switch self {
        case .literal(let text): text.utf8.count
        case .string(let text): text.utf8.count + 2
        case .array(let elements): elements.reduce(2) { $0 + $1.byteCount + 1 }
        case .object(let members):
            members.reduce(2) { $0 + $1.key.utf8.count + $1.value.byteCount + 4 }
        }
    }

    /// Depth of its nested arrays and objects.
    var depth: Int {
        switch self {
        case .literal, .string: 0
        case .array(let elements): 1 + (elements.map(\.depth).max() ?? 0)
        case .object(let members): 1 + (members.map(\.value.depth).max() ?? 0)
        }
    }

    /// Writes the value.
    func write(to json: inout JSONWriter) {
        switch self {
        case .literal(let text): json.raw(RawJSON(text))
        case .string(let text): json.string(text)
        case .array(let elements): json.array { json in elements.forEach { $0.write(to: &json) } }
        case .object(let members):
            json.object { json in
                for member in members {
                    json.key(text: member.key)
                    member.value.write(to: &json)
                }
            }
        }
    }

    /// Whether two values are equal (RFC 6902 §4.6): numbers by value, objects in any order.
    func isEqual(to other: JSONTree) -> Bool {
        switch (self, other) {
        case (.literal(let one), .literal(let two)):
            if one == two { return true }
            guard let one = Double(one), let two = Double(two) else { return false }
            return one == two
        case (.string(let one), .string(let two)): return one == two
        case (.array(let one), .array(let two)):
            return one.count == two.count && zip(one, two).allSatisfy { $0.isEqual(to: $1) }
        case (.object(let one), .object(let two)):
            guard one.count == two.count else { return false }
            let values = Dictionary(
                two.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
            return one.allSatisfy { member in
                values[member.key].map { member.value.isEqual(to: $0) } ?? false
            }
        case (.literal, _), (.string, _), (.array, _), (.object, _): return false
        }
    }

    // MARK: Pointers

    /// The value at a pointer.
    func value(at pointer: ArraySlice<String>) throws(JSONPatchError) -> JSONTree {
        guard let token = pointer.first else { return self }
        switch self {
        case .literal, .string: throw .missingTarget
        case .array(let elements):
            let index = try Self.index(token, below: elements.count)
            return try elements[index].value(at: pointer.dropFirst())
        case .object(let members):
            guard let member = members.first(where: { $0.key == token }) else {
                throw .missingTarget
            }
            return try member.value.value(at: pointer.dropFirst())
        }
    }

    /// Adds a value at a pointer: to an object, into an array, or instead of the whole (RFC 6902
    /// §4.1).
    mutating func add(
        _ value: JSONTree, at pointer: ArraySlice<String>
    ) throws(JSONPatchError) {
        guard let token = pointer.first else {
            self = value
            return
        }
        try change(at: pointer) { (tree) throws(JSONPatchError) in
            switch tree {
            case .literal, .string: throw .missingTarget
            case .array(var elements):
                let index =
                    token == "-"
                    ? elements.count : try Self.index(token, below: elements.count + 1)
                tree = .literal("null")  // The array has one owner, so it is changed in place.
                elements.insert(value, at: index)
                tree = .array(elements)
            case .object(var members):
                tree = .literal("null")
                if let index = members.firstIndex(where: { $0.key == token }) {
                    members[index].value = value
                } else {
                    members.append(Member(key: token, value: value))
                }
                tree = .object(members)
            }
        } deeper: { (tree) throws(JSONPatchError) in
            try tree.add(value, at: pointer.dropFirst())
        }
    }

    /// Removes the value at a pointer (RFC 6902 §4.2).
    mutating func remove(at pointer: ArraySlice<String>) throws(JSONPatchError) {
        guard let token = pointer.first else { throw .missingTarget }
        try change(at: pointer) { (tree) throws(JSONPatchError) in
            switch tree {
            case .literal, .string: throw .missingTarget
            case .array(var elements):
                let index = try Self.index(token, below: elements.count)
                tree = .literal("null")
                elements.remove(at: index)
                tree = .array(elements)
            case .object(var members):
                guard let index = members.firstIndex(where: { $0.key == token }) else {
                    throw .missingTarget
                }
                tree = .literal("null")
                members.remove(at: index)
                tree = .object(members)
            }
        } deeper: { (tree) throws(JSONPatchError) in
            try tree.remove(at: pointer.dropFirst())
        }
    }

    /// Calls `last` with this value where the pointer names one of its own members, `deeper` with
    /// the member that the pointer leads through otherwise.
    private mutating func change(
        at pointer: ArraySlice<String>,
        last: (inout JSONTree) throws(JSONPatchError) -> Void,
        deeper: (inout JSONTree) throws(JSONPatchError) -> Void
    ) throws(JSONPatchError) {
        guard pointer.count > 1, let token = pointer.first else { return try last(&self) }
        switch self {
        case .literal, .string: throw .missingTarget
        case .array(var elements):
            let index = try Self.index(token, below: elements.count)
            self = .literal("null")  // As above.
            defer { self = .array(elements) }
            try deeper(&elements[index])
        case .object(var members):
            guard let index = members.firstIndex(where: { $0.key == token }) else {
                throw .missingTarget
            }
            self = .literal("null")
            defer { self = .object(members) }
            try deeper(&members[index].value)
        }
    }

    /// An index of an array: digits without leading zeros (RFC 6901 §4).
    private static func index(_ token: String, below end: Int) throws(JSONPatchError) -> Int {
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            token == "0" || !token.hasPrefix("0"), let index = Int(token)
        else { throw .invalidPointer }
        guard index < end else { throw .missingTarget }
        return index
    }
}

/// One operation of a patch (RFC 6902 §4).
struct JSONPatchOperation {
    /// The kind of change, with its value or source.
    enum Action {
        case add(JSONTree)
        case remove
        case replace(JSONTree)
        case move(from: [String])
        case copy(from: [String])
        case test(JSONTree)
    }

    let action: Action
    /// The target as the tokens of its pointer.
    let path: [String]

    /// Reads an operation.
    init(_ operation: JSONValue) throws(JSONPatchError) {
        path = try Self.pointer(operation["path"])
        switch operation["op"]?.string {
        case "add": action = .add(try Self.value(operation))
        case "remove": action = .remove
        case "replace": action = .replace(try Self.value(operation))
        case "move": action = .move(from: try Self.pointer(operation["from"]))
        case "copy": action = .copy(from: try Self.pointer(operation["from"]))
        case "test": action = .test(try Self.value(operation))
        default: throw .invalidOperation
        }
    }

    private static func value(_ operation: JSONValue) throws(JSONPatchError) -> JSONTree {
        guard let value = operation["value"] else { throw .invalidOperation }
        guard let tree = JSONTree(value) else { throw .tooDeep }
        return tree
    }

    /// The tokens of a JSON Pointer (RFC 6901 §3).
    private static func pointer(_ value: JSONValue?) throws(JSONPatchError) -> [String] {
        guard let text = value?.string else { throw .invalidOperation }
        guard !text.isEmpty else { return [] }
        guard text.utf8.first == UInt8(ascii: "/") else { throw .invalidPointer }
        var tokens: [String] = []
        for part in text.utf8.dropFirst().split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        {
            guard tokens.count <= JSONTree.maxDepth else { throw .tooDeep }
            var token: [UInt8] = []
            var isEscape = false
            for byte in part {
                switch (isEscape, byte) {
                case (true, UInt8(ascii: "0")): token.append(UInt8(ascii: "~"))
                case (true, UInt8(ascii: "1")): token.append(UInt8(ascii: "/"))
                case (true, _): throw .invalidPointer
                case (false, UInt8(ascii: "~")): break
                case (false, _): token.append(byte)
                }
                isEscape = !isEscape && byte == UInt8(ascii: "~")
            }
            guard !isEscape else { throw .invalidPointer }
            tokens.append(String(decoding: token, as: UTF8.self))
        }
        return tokens
    }
}

extension JSONTree {
    /// Applies a patch. Where it throws, the value may be changed in part: the caller drops it.
    /// - Parameter maxBytes: limit of `byteCount` of the result. While the patch is applied, four
    ///   times this limit may be added, for patches that add before they remove.
    mutating func apply(
        _ operations: [JSONPatchOperation], maxBytes: Int
    ) throws(JSONPatchError) {
        guard operations.count <= Self.maxOperations else { throw .tooLarge }
        var allowance = 4 * maxBytes
        for operation in operations {
            let path = operation.path[...]
            switch operation.action {
            case .add(let value):
                try insert(value, at: path, &allowance)
            case .remove:
                try remove(at: path)
            case .replace(let value):
                _ = try self.value(at: path)
                if !path.isEmpty { try remove(at: path) }
                try insert(value, at: path, &allowance)
            case .move(let from):
                // RFC 6902 §4.4: a value cannot become a part of itself.
                guard from.count >= path.count || !path.starts(with: from) else {
                    throw .invalidOperation
                }
                let value = try self.value(at: from[...])
                if from == operation.path { continue }
                try remove(at: from[...])
                try insert(value, at: path, &allowance)
            case .copy(let from):
                try insert(try self.value(at: from[...]), at: path, &allowance)
            case .test(let value):
                guard try self.value(at: path).isEqual(to: value) else { throw .testFailed }
            }
        }
        guard byteCount <= maxBytes else { throw .tooLarge }
    }

    private mutating func insert(
        _ value: JSONTree, at path: ArraySlice<String>, _ allowance: inout Int
    ) throws(JSONPatchError) {
        allowance -= value.byteCount + (path.last?.utf8.count ?? 0)
        guard allowance >= 0 else { throw .tooLarge }
        guard path.count + value.depth <= Self.maxDepth else { throw .tooDeep }
        try add(value, at: path)
    }
}
