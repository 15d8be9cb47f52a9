// Checked reading of saved JSON: each member has a type and a range. A member that is missing or
// out of range is an error that names it.
//
// Invariant: a number that is read is within its range, a text within its length.

import Codec

/// The members of one object.
struct SavedFields {
    /// Milliseconds of an item's audio.
    static let milliseconds = 0...PlayedAudio.longest

    let object: JSONValue

    init(_ object: JSONValue, _ name: StaticString) throws(SavedSessionError) {
        guard object.kind == .object else { throw .malformed("\(name)") }
        self.object = object
    }

    /// A member that is there.
    func required(_ key: StaticString) throws(SavedSessionError) -> JSONValue {
        guard let value = object[key], !value.isNull else { throw .malformed("\(key)") }
        return value
    }

    /// A text of at most this many bytes of UTF-8.
    func text(
        _ key: StaticString, atMost bytes: Int = ClientEventLimits.maxNameBytes
    ) throws(SavedSessionError) -> String {
        guard let text = try required(key).string, text.utf8.count <= bytes else {
            throw .malformed("\(key)")
        }
        return text
    }

    /// An id: a text that is not empty.
    func id(_ key: StaticString) throws(SavedSessionError) -> String {
        let text = try text(key)
        guard !text.isEmpty else { throw .malformed("\(key)") }
        return text
    }

    /// A number in a range.
    func integer(
        _ key: StaticString, in range: ClosedRange<Int>
    ) throws(SavedSessionError) -> Int {
        guard let number = try required(key).int, range.contains(number) else {
            throw .malformed("\(key)")
        }
        return number
    }

    /// A truth value.
    func bool(_ key: StaticString) throws(SavedSessionError) -> Bool {
        guard let value = try required(key).bool else { throw .malformed("\(key)") }
        return value
    }

    /// The elements of an array that has at most this many.
    func list<Element>(
        _ key: StaticString, atMost most: Int,
        _ read: (JSONValue) throws(SavedSessionError) -> Element
    ) throws(SavedSessionError) -> [Element] {
        guard let elements = try required(key).elements, elements.count <= most else {
            throw .malformed("\(key)")
        }
        var list: [Element] = []
        list.reserveCapacity(elements.count)
        for element in elements { list.append(try read(element)) }
        return list
    }

    /// Ids in an array.
    func ids(_ key: StaticString, atMost most: Int) throws(SavedSessionError) -> [String] {
        try list(key, atMost: most) { (value) throws(SavedSessionError) in
            guard let id = value.string, !id.isEmpty,
                id.utf8.count <= ClientEventLimits.maxNameBytes
            else { throw .malformed("\(key)") }
            return id
        }
    }
}

extension JSONParser {
    /// Parses a saved field.
    func parse(saved bytes: [UInt8]) throws(SavedSessionError) -> JSONValue {
        do throws(JSONError) { return try parse(bytes) } catch { throw .notJSON(error) }
    }
}

extension JSONWriter {
    /// Writes an array of texts.
    mutating func texts(_ key: StaticString, _ texts: [String]) {
        array(key) { json in
            for text in texts { json.string(text) }
        }
    }

    /// The bytes of a document.
    static func saved(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 1_024))
        json.object(write)
        return json.finish().copiedBytes
    }
}
