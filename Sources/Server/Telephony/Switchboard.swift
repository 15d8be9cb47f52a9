// The state that the telephone lines of one shard share: the buffers that serve all of them, and which
// lines have no call yet.
//
// Invariant: a line is among the unbegun from its handshake until its call begins, or it ends.

import Codec
import Session

/// Shared by the lines of one shard. Confined to its thread.
final class Switchboard {
    /// Lines of one caller whose call has not begun. 32: a carrier begins its call as soon as it is
    /// connected, so that a few wait even in a storm of calls.
    static let mostUnbegun = 32
    /// Bytes of `heard` that are kept. 64 KiB, as of the parser's.
    private static let keptBytes = 64 << 10
    /// Bytes of `heard` at first: 100 ms in most codings.
    private static let firstBytes = 1_600

    /// Lines whose call has not begun.
    private(set) var unbegun = WaitingByCaller(share: mostUnbegun)
    /// Reads the messages of all lines.
    var parser = TelephoneParser()
    /// A caller's audio that is heard now, in the session's format.
    var heard = ByteWriter(capacity: firstBytes)

    /// A connection has become a line.
    func noteLine(at token: EventToken, of caller: CallerTag) {
        unbegun.insert(token, of: caller)
    }

    /// The call of a line begins, or the line ends without one.
    func noteBegun(at token: EventToken, of caller: CallerTag) {
        unbegun.remove(token, of: caller)
    }

    /// Empties `heard`; the memory of a long message is given back.
    func clearHeard() {
        if heard.allocatedBytes > Self.keptBytes {
            heard = ByteWriter(capacity: Self.firstBytes)
        } else {
            heard.removeAll()
        }
    }

    /// The bytes in `heard`. Valid until it is changed.
    var heardBytes: UnsafeRawBufferPointer { heard.withUnsafeBytes { $0 } }
}
