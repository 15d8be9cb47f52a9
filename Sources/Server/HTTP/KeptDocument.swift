// A document that is made at the first request for it, and kept. Making it takes as long as a
// hundred packets of audio, and every client may ask for it, as often as it likes. OpenAPIDocument
// and AsyncAPIDocument have the content.

import Synchronization

/// The bytes of a document: about 35 and 85 kB after the first request.
final class KeptDocument: Sendable {
    private let kept = Mutex<[UInt8]?>(nil)

    /// The document; the first call makes it.
    func bytes(_ make: () -> [UInt8]) -> [UInt8] {
        if let bytes = kept.withLock({ $0 }) { return bytes }
        let bytes = make()
        kept.withLock { $0 = bytes }
        return bytes
    }
}
