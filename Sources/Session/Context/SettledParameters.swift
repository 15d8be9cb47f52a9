// The parameters of a session: some 400 bytes, and thousands with instructions. The clients of one
// application start with the same parameters and send the same update, so sessions share equal
// parameters, and an idle session has a reference.
//
// Invariant: shared parameters never change; an update gives the session another object.

import Codec

/// Parameters that are in force, and their size.
final class SettledParameters {
    /// The parameters themselves.
    let value: SessionParameters
    /// Bytes of the object and of the values that it refers to.
    let heldBytes: Int

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SettledParameters.self)

    init(_ value: SessionParameters) {
        self.value = value
        heldBytes = Self.objectBytes + value.heapBytes
    }
}

/// The newest parameters of a session of the shard; mostly the next session has the same.
struct NewestParameters {
    private var newest: SettledParameters?

    /// Finds room for a session's parameters.
    /// - Returns: the parameters, and the bytes that they take beyond those that another session
    ///   already has.
    mutating func settle(
        _ parameters: SessionParameters
    ) -> (settled: SettledParameters, ownBytes: Int) {
        if let newest, newest.value == parameters { return (newest, 0) }
        let settled = SettledParameters(parameters)
        newest = settled
        return (settled, settled.heldBytes)
    }
}
