// JSON for the bodies of requests and the arguments of functions, as bytes or as `RawJSON`.
// JSONWriter (Codec) does the writing.

import Codec

/// Returns the JSON value that `write` writes.
func encodedJSON(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var json = JSONWriter(ByteWriter(capacity: 1_024))
    write(&json)
    return json.finish().copiedBytes
}

/// Returns the JSON object whose members `members` writes.
func encodedObject(_ members: (inout JSONWriter) -> Void) -> [UInt8] {
    encodedJSON { $0.object(members) }
}

extension RawJSON {
    /// Returns the JSON object whose members `members` writes.
    static func object(_ members: (inout JSONWriter) -> Void) -> RawJSON {
        RawJSON(String(decoding: encodedObject(members), as: UTF8.self))
    }
}
