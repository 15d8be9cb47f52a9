// JSON as an array of bytes, for the bodies of requests and the arguments of functions. JSONWriter
// (Codec) does the writing.

import Codec

/// Returns the JSON value that `write` writes.
func encodedJSON(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var json = JSONWriter(ByteWriter(capacity: 1_024))
    write(&json)
    return json.finish().copiedBytes
}
