// What a caller of `UpstreamHTTP.send(_:)` holds: the answer's head and the right to its pieces.
// Letting go of it ends the transfer. The transfer itself is in UpstreamTransfer.

import Session

/// An answer of an upstream service. It has one consumer.
final class UpstreamReply: UpstreamResponse {
    let status: Int
    let retryAfter: Duration?
    let contentType: String?
    private let kept: (name: String, value: String)?
    private let transfer: UpstreamTransfer
    private let client: UpstreamHTTP

    init(status: Int, transfer: UpstreamTransfer, client: UpstreamHTTP) {
        self.status = status
        retryAfter = transfer.retryAfter
        contentType = transfer.contentType
        kept = transfer.kept
        self.transfer = transfer
        self.client = client
    }

    deinit { client.abandon(transfer) }

    func header(_ name: String) -> String? { kept?.name == name ? kept?.value : nil }

    func nextChunk() async throws -> [UInt8]? {
        try await client.nextChunk(of: transfer)
    }
}
