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
        guard client.isOnLoopThread else {
            return try await withTaskExecutorPreference(client.executor) {
                try await self.nextChunk()
            }
        }
        // Nothing lies between here and the wait: a function that calls another is memory of every
        // transfer, and time of every piece.
        switch client.takeChunk(of: transfer) {
        case .chunk(let bytes): return bytes
        case .end(let error?): throw error
        case .end(nil): return nil
        case .empty:
            return try await withTaskCancellationHandler { [transfer] in
                try await withUnsafeThrowingContinuation { transfer.awaitChunk($0) }
            } onCancel: { [client, transfer] in
                client.abandon(transfer)
            }
        }
    }
}
