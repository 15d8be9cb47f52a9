// The parameters of a session as they stand: some 400 bytes, with instructions thousands. The
// clients of one application begin alike and send the same update, so sessions share what is equal,
// and an idle one has a reference.
//
// Invariant: what is shared never changes; an update gives the session others.

import Codec

/// Parameters that are in force, and their size.
final class SettledParameters {
    /// The parameters themselves.
    let value: SessionParameters
    /// Bytes of the object and of what it refers to.
    let heldBytes: Int

    /// Bytes of the object itself, its two words of header included.
    static let objectBytes = HeapBlock.bytes(16 + MemoryLayout<SessionParameters>.stride + 8)

    init(_ value: SessionParameters) {
        self.value = value
        heldBytes = Self.objectBytes + value.heapBytes
    }
}

/// The parameters that a session of the shard has settled on last: mostly those of the next, too.
struct NewestParameters {
    private var newest: SettledParameters?

    /// Finds room for a session's parameters.
    /// - Returns: them, and the bytes that they take beside what another session has already.
    mutating func settle(
        _ parameters: SessionParameters
    ) -> (settled: SettledParameters, ownBytes: Int) {
        if let newest, newest.value == parameters { return (newest, 0) }
        let settled = SettledParameters(parameters)
        newest = settled
        return (settled, settled.heldBytes)
    }
}
