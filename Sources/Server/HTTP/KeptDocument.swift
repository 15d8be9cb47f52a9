// A document that is made when somebody first asks for it, and kept from then on: making it takes
// as long as a hundred packets of audio, and anybody may ask, as often as he likes. What is in it
// is OpenAPIDocument's and AsyncAPIDocument's.

import Synchronization

/// The bytes of a document; about 35 and 85 kB, once asked for.
final class KeptDocument: Sendable {
    private let kept = Mutex<[UInt8]?>(nil)

    /// The document, made by `make` if this is the first time.
    func bytes(_ make: () -> [UInt8]) -> [UInt8] {
        if let bytes = kept.withLock({ $0 }) { return bytes }
        let bytes = make()
        kept.withLock { $0 = bytes }
        return bytes
    }
}
