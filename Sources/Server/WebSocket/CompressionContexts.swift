// The contexts of permessage-deflate that one connection keeps from message to message (RFC 7692 §7.1.1).

import Codec
import Session

/// The contexts of one connection, which alone refers to them.
final class CompressionContexts {
    /// Nil where the client forgets each message.
    let inflater: MessageInflater?
    /// Nil where the server forgets each message.
    let deflater: MessageDeflater?
    /// Bytes that they count for: the most that they may take.
    let bytes: Int

    init(_ agreement: PerMessageDeflateAgreement) {
        inflater =
            agreement.clientKeepsContext
            ? MessageInflater(windowBits: agreement.clientWindowBits, keepsContext: true) : nil
        deflater =
            agreement.serverKeepsContext
            ? MessageDeflater(windowBits: agreement.serverWindowBits, keepsContext: true) : nil
        bytes = CompressionContexts.cost(of: agreement)
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(CompressionContexts.self)

    /// Bytes that the contexts take now.
    var heldBytes: Int {
        Self.objectBytes + (inflater?.heldBytes ?? 0) + (deflater?.heldBytes ?? 0)
    }

    /// The most that the contexts of an agreement will take, in bytes.
    static func cost(of agreement: PerMessageDeflateAgreement) -> Int {
        let ours = MessageDeflater.heldBytes(windowBits: agreement.serverWindowBits)
        let theirs = MessageInflater.heldBytes(windowBits: agreement.clientWindowBits)
        return (agreement.serverKeepsContext ? ours : 0)
            + (agreement.clientKeepsContext ? theirs : 0)
    }
}
