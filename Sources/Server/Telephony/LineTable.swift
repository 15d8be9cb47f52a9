// The telephone lines of one shard, and the buffers that serve all of them. ShardTelephony acts on
// them.
//
// Invariant: without a line the table is empty; only connections of the role `line` have one.

import Codec
import Session

/// The lines of one shard.
struct LineTable: ~Copyable {
    /// By the connections that they are on.
    private var lines: [EventToken: TelephoneLine] = [:]
    /// Lines of one caller whose call has not begun. 32: a carrier begins its call as soon as it is
    /// connected, so that a few wait even in a storm of calls.
    static let mostUnbegun = 32
    /// Those whose call has not begun.
    private(set) var unbegun = WaitingByCaller(share: mostUnbegun)
    /// Reads all their messages.
    var parser = TelephoneParser()
    /// A caller's audio that is heard now, in the session's format.
    var heard = ByteWriter(capacity: 1_600)

    /// Bytes of `heard` that are kept. 64 KiB, as of the parser's.
    private static let keptBytes = 64 << 10

    /// The line of a connection; nil: it is none.
    subscript(token: EventToken) -> TelephoneLine? { lines[token] }

    /// The facts of a connection's call; nil: it has none.
    func call(at token: EventToken) -> TelephoneCall? {
        lines.isEmpty ? nil : lines[token]?.call
    }

    /// A connection has become a line.
    mutating func insert(_ line: TelephoneLine, at token: EventToken) {
        lines[token] = line
        unbegun.insert(token, of: line.tag)
    }

    /// The call of a line begins, or the line ends without one.
    mutating func noteBegun(_ line: TelephoneLine, at token: EventToken) {
        unbegun.remove(token, of: line.tag)
    }

    /// Takes a line that is over.
    mutating func remove(_ token: EventToken) -> TelephoneLine? {
        guard let line = lines.removeValue(forKey: token) else { return nil }
        noteBegun(line, at: token)
        return line
    }

    /// Empties `heard`; the memory of a long message is given back.
    mutating func clearHeard() {
        if heard.allocatedBytes > Self.keptBytes {
            heard = ByteWriter(capacity: 1_600)
        } else {
            heard.removeAll()
        }
    }

    /// What `heard` holds. Valid until it is changed.
    var heardBytes: UnsafeRawBufferPointer { heard.withUnsafeBytes { $0 } }
}
