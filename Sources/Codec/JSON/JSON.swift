// Reads JSON (RFC 8259): a parser that is reused for one document after another, and the values of
// its last document. JSONWriter writes; the event parsers interpret. simdjson does the parsing,
// behind the C functions of CSimdjson.
//
// Invariant: a `JSONValue` belongs to one document and keeps its parser alive. Using it after the
// parser has read another document traps; it never reads other bytes.

import CSimdjson

/// Limits of one document.
public struct JSONLimits: Equatable, Sendable {
    /// Bytes of one document. The default fits an `input_audio_buffer.append` with the protocol's
    /// 15 MiB of audio as base64. A transport's message limit is usually lower.
    public var maxDocumentBytes = 21 << 20
    /// Depth of nested arrays and objects, the outermost included. More than any tool schema in use
    /// needs, and little enough for a thread's stack.
    public var maxDepth = 64
    /// Keys and values of one document; each takes 40 bytes while the document is read. A session
    /// with 128 large tool schemas has about 13,000.
    public var maxValues = 65_536
    /// Buffers that grew for a longer document shrink to this with the next shorter one, so that
    /// one huge message does not keep its memory.
    public var retainedDocumentBytes = 256 << 10

    /// The defaults.
    public init() {}
}

/// Why a text is refused as JSON.
public struct JSONError: Error, Equatable, Sendable {
    /// The rule that a text breaks, or the limit that it exceeds.
    public enum Reason: Equatable, Sendable {
        /// The document is longer than `JSONLimits.maxDocumentBytes`.
        case tooLarge
        /// The document is nested deeper than `JSONLimits.maxDepth`.
        case tooDeep
        /// The document has more keys and values than `JSONLimits.maxValues`.
        case tooManyValues
        /// The document is only white space.
        case empty
        case invalidUTF8
        /// An unknown escape, a raw control character, or no closing quote.
        case invalidString
        /// Not a number (RFC 8259 §6), or out of a double's range.
        case invalidNumber
        /// A word other than `true`, `false` and `null`.
        case invalidLiteral
        /// A missing or misplaced bracket, comma, colon or key.
        case invalidStructure
        /// More text follows the document.
        case trailingContent
        /// A single string, number or literal: this parser accepts only objects and arrays.
        case notAContainer
        case outOfMemory
    }

    /// The reason of the refusal.
    public var reason: Reason
    /// Offset of the last value that was reached, or of the first byte that is wrong; nil where the
    /// document was refused as a whole.
    public var byteOffset: Int?

    /// Creates an error.
    public init(_ reason: Reason, byteOffset: Int? = nil) {
        self.reason = reason
        self.byteOffset = byteOffset
    }

    /// The reason as a clause for a message, for example `a number is malformed or out of range near
    /// byte 17`.
    public var explanation: String {
        guard let byteOffset else { return clause }
        return "\(clause) near byte \(byteOffset)"
    }

    private var clause: String {
        switch reason {
        case .tooLarge: "the document is too long"
        case .tooDeep: "arrays and objects are nested too deeply"
        case .tooManyValues: "the document has too many values"
        case .empty: "the document is empty"
        case .invalidUTF8: "the text is not valid UTF-8"
        case .invalidString:
            "a string has an unknown escape, a control character or no closing quote"
        case .invalidNumber: "a number is malformed or out of range"
        case .invalidLiteral: "a word is not true, false or null"
        case .invalidStructure: "a bracket, comma, colon or key is missing or misplaced"
        case .trailingContent: "something follows the end of the document"
        case .notAContainer: "the document is not an object or an array"
        case .outOfMemory: "there is no memory for the document"
        }
    }
}

/// Reads documents, one after another, into buffers that it reuses. Used by one thread at a time.
public final class JSONParser {
    private let parser: OpaquePointer
    private var document = csimdjson_document()
    private var generation: UInt64 = 0

    /// Creates a parser. Its buffers are allocated with the first document.
    /// - Precondition: limits are positive and `maxDocumentBytes` is below 4 GiB.
    public init(limits: JSONLimits = JSONLimits()) {
        precondition(limits.maxDocumentBytes > 0 && limits.maxDocumentBytes < 0xFFFF_FF00)
        precondition(limits.maxDepth > 0 && limits.maxDepth <= 1_024)
        precondition(limits.maxValues > 0 && limits.maxValues <= Int(Int32.max))
        let created = csimdjson_create(
            limits.maxDocumentBytes, UInt32(limits.maxDepth), UInt32(limits.maxValues),
            limits.retainedDocumentBytes)
        guard let created else { preconditionFailure("no memory for a JSON parser") }
        parser = created
    }

    deinit { csimdjson_destroy(parser) }

    /// Parses one document, an object or an array, and validates all of it. Values of the previous
    /// document become invalid. The bytes are copied.
    public func parse(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> JSONValue {
        generation += 1
        let status = csimdjson_parse(parser, bytes.baseAddress, bytes.count, &document)
        guard let reason = JSONError.Reason(status) else {
            return JSONValue(parser: self, generation: generation, index: 0)
        }
        // A document that fails has no values, whatever was recorded before the error.
        generation += 1
        let offset = Int(document.error_offset)
        throw JSONError(
            reason,
            byteOffset: offset >= 0 ? offset : BrokenJSON.offset(of: reason, in: bytes))
    }

    /// Parses one document from a string.
    public func parse(_ text: String) throws(JSONError) -> JSONValue {
        var text = text
        let result = text.withUTF8 { (bytes) -> Result<JSONValue, JSONError> in
            Result { () throws(JSONError) in try parse(UnsafeRawBufferPointer(bytes)) }
        }
        return try result.get()
    }

    /// Parses one document from an array.
    public func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONValue {
        try bytes.span.bytes.withUnsafeBytes { (bytes) throws(JSONError) in try parse(bytes) }
    }

    fileprivate func node(_ index: Int, _ generation: UInt64) -> UnsafePointer<csimdjson_node> {
        precondition(generation == self.generation, "a value of an earlier document")
        return document.nodes + index
    }

    fileprivate func source(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: document.source + offset, count: count)
    }
}

extension JSONError.Reason {
    /// The error for a status; nil for success.
    fileprivate init?(_ status: csimdjson_status) {
        switch status {
        case CSIMDJSON_OK: return nil
        case CSIMDJSON_TOO_LARGE: self = .tooLarge
        case CSIMDJSON_TOO_DEEP: self = .tooDeep
        case CSIMDJSON_TOO_MANY_VALUES: self = .tooManyValues
        case CSIMDJSON_EMPTY: self = .empty
        case CSIMDJSON_INVALID_UTF8: self = .invalidUTF8
        case CSIMDJSON_INVALID_STRING: self = .invalidString
        case CSIMDJSON_INVALID_NUMBER: self = .invalidNumber
        case CSIMDJSON_INVALID_LITERAL: self = .invalidLiteral
        case CSIMDJSON_INVALID_STRUCTURE: self = .invalidStructure
        case CSIMDJSON_TRAILING_CONTENT: self = .trailingContent
        case CSIMDJSON_NOT_A_CONTAINER: self = .notAContainer
        case CSIMDJSON_OUT_OF_MEMORY: self = .outOfMemory
        default: preconditionFailure("a status that CSimdjson.h does not list")
        }
    }
}

/// One value of a document. Reading it as another type than its own gives nil.
public struct JSONValue {
    /// The six kinds of RFC 8259 §3.
    public enum Kind: Equatable, Sendable { case null, bool, number, string, array, object }

    fileprivate let parser: JSONParser
    fileprivate let generation: UInt64
    fileprivate let index: Int

    fileprivate var node: UnsafePointer<csimdjson_node> { parser.node(index, generation) }

    fileprivate func sibling(_ index: Int) -> JSONValue {
        JSONValue(parser: parser, generation: generation, index: index)
    }

    /// The kind of this value.
    public var kind: Kind {
        switch node.pointee.kind {
        case CSIMDJSON_NULL: .null
        case CSIMDJSON_FALSE, CSIMDJSON_TRUE: .bool
        case CSIMDJSON_INTEGER, CSIMDJSON_DOUBLE: .number
        case CSIMDJSON_STRING: .string
        case CSIMDJSON_ARRAY: .array
        case CSIMDJSON_OBJECT: .object
        default: preconditionFailure("a kind that CSimdjson.h does not list")
        }
    }

    /// Whether this is `null`.
    public var isNull: Bool { node.pointee.kind == CSIMDJSON_NULL }

    /// The value of a boolean.
    public var bool: Bool? {
        switch node.pointee.kind {
        case CSIMDJSON_TRUE: true
        case CSIMDJSON_FALSE: false
        default: nil
        }
    }

    /// The value of a number that is whole and fits 64 bits, in any spelling (`5`, `5.0`).
    public var int: Int? {
        switch node.pointee.kind {
        case CSIMDJSON_INTEGER: Int(exactly: node.pointee.integer)
        case CSIMDJSON_DOUBLE: Int(exactly: node.pointee.number)
        default: nil
        }
    }

    /// The value of a number; always finite.
    public var double: Double? {
        switch node.pointee.kind {
        case CSIMDJSON_INTEGER: Double(node.pointee.integer)
        case CSIMDJSON_DOUBLE: node.pointee.number
        default: nil
        }
    }

    /// The decoded text of a string. Half of a surrogate pair is U+FFFD.
    public var string: String? {
        utf8.map { String(decoding: $0, as: UTF8.self) }
    }

    /// The low half of a surrogate pair that a string begins with: U+FFFD in its text. The high half
    /// may have come in an earlier document of the stream (SurrogateHalves).
    public var firstHalf: UInt16? {
        let half = node.pointee.first_half
        return node.pointee.kind == CSIMDJSON_STRING && half != 0 ? half : nil
    }

    /// The high half of a surrogate pair that a string ends with.
    public var lastHalf: UInt16? {
        let half = node.pointee.last_half
        return node.pointee.kind == CSIMDJSON_STRING && half != 0 ? half : nil
    }

    /// The decoded text of a string as UTF-8, without a copy. Valid until the parser's next
    /// document.
    public var utf8: UnsafeRawBufferPointer? {
        let node = node
        guard node.pointee.kind == CSIMDJSON_STRING else { return nil }
        return UnsafeRawBufferPointer(start: node.pointee.text, count: Int(node.pointee.count))
    }

    /// Whether this is a string with exactly this text. Compares without a copy.
    public func isString(_ text: StaticString) -> Bool {
        node.pointee.kind == CSIMDJSON_STRING && node.pointee.hasText(text)
    }

    /// The member of an object, or nil. If a key is repeated, its last member counts, as in the
    /// parsers of browsers and of Python.
    public subscript(_ key: StaticString) -> JSONValue? {
        guard node.pointee.kind == CSIMDJSON_OBJECT else { return nil }
        let end = Int(node.pointee.next)
        var position = index + 1
        var found: Int?
        while position < end {
            TextSteps.note()
            if parser.node(position, generation).pointee.hasText(key) { found = position + 1 }
            position = Int(parser.node(position + 1, generation).pointee.next)
        }
        return found.map(sibling)
    }

    /// The elements of an array.
    public var elements: JSONElements? {
        node.pointee.kind == CSIMDJSON_ARRAY ? JSONElements(of: self) : nil
    }

    /// The members of an object in the order of the document, repeated keys included.
    public var members: JSONMembers? {
        node.pointee.kind == CSIMDJSON_OBJECT ? JSONMembers(of: self) : nil
    }

    /// Number of members of an object or elements of an array; 0 for other kinds.
    public var count: Int {
        switch kind {
        case .array, .object: Int(node.pointee.count)
        case .null, .bool, .number, .string: 0
        }
    }

    /// The exact bytes of the value in the document, without surrounding white space. Valid until
    /// the parser's next document.
    public var rawBytes: UnsafeRawBufferPointer {
        parser.source(Int(node.pointee.raw_offset), Int(node.pointee.raw_count))
    }

    /// The exact text of the value in the document, to forward unchanged.
    public var raw: RawJSON { RawJSON(String(decoding: rawBytes, as: UTF8.self)) }
}

/// The elements of an array, in order.
public struct JSONElements: Sequence, IteratorProtocol {
    /// How many elements the array has.
    public let count: Int
    private let array: JSONValue
    private var position: Int
    private let end: Int

    fileprivate init(of array: JSONValue) {
        self.array = array
        count = Int(array.node.pointee.count)
        position = array.index + 1
        end = Int(array.node.pointee.next)
    }

    /// The next element, or nil at the end.
    public mutating func next() -> JSONValue? {
        guard position < end else { return nil }
        let element = array.sibling(position)
        position = Int(element.node.pointee.next)
        return element
    }
}

/// The members of an object, in the order of the document.
public struct JSONMembers: Sequence, IteratorProtocol {
    private let object: JSONValue
    private var position: Int
    private let end: Int

    fileprivate init(of object: JSONValue) {
        self.object = object
        position = object.index + 1
        end = Int(object.node.pointee.next)
    }

    /// The next member, or nil at the end.
    public mutating func next() -> (key: String, value: JSONValue)? {
        guard position < end else { return nil }
        let key = object.sibling(position)
        let value = object.sibling(position + 1)
        position = Int(value.node.pointee.next)
        return (key.string ?? "", value)
    }
}

extension csimdjson_node {
    /// Whether the decoded text of this key or string is exactly `expected`.
    fileprivate func hasText(_ expected: StaticString) -> Bool {
        guard Int(count) == expected.utf8CodeUnitCount else { return false }
        let own = UnsafeRawBufferPointer(start: text, count: Int(count))
        return own.elementsEqual(
            UnsafeRawBufferPointer(start: expected.utf8Start, count: expected.utf8CodeUnitCount))
    }
}
