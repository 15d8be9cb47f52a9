// JSON that leaves as an array of bytes, which is what requests and function arguments are made of.
// The writing is Codec's JSONWriter.

import Codec

/// The JSON value that `write` writes.
func encodedJSON(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var json = JSONWriter(ByteWriter(capacity: 1_024))
    write(&json)
    return json.finish().copiedBytes
}
