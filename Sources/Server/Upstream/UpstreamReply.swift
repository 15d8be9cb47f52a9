// The result of `UpstreamHTTP.send(_:)`: the answer's head, and access to its pieces. The transfer
// ends with the object, unless its end is expected. The transfer itself is in UpstreamTransfer.

import Session
import Synchronization

/// An answer of an upstream service. It has one consumer.
final class UpstreamReply: UpstreamResponse {
    let status: Int
    let retryAfter: Duration?
    let contentType: String?
    let location: String?
    private let kept: (name: String, value: String)?
    private let transfer: UpstreamTransfer
    private let client: UpstreamHTTP
    /// Whether the transfer outlives this object.
    private let endsByItself = Atomic(false)

    init(status: Int, transfer: UpstreamTransfer, client: UpstreamHTTP) {
        self.status = status
        retryAfter = transfer.retryAfter
        contentType = transfer.contentType
        location = transfer.location
        kept = transfer.kept
        self.transfer = transfer
        self.client = client
    }

    deinit {
        if endsByItself.load(ordering: .relaxed) {
            client.skipRest(of: transfer)
        } else {
            client.abandon(transfer)
        }
    }

    func expectEnd(within limit: Duration) {
        endsByItself.store(true, ordering: .relaxed)
        client.expectEnd(of: transfer, within: limit)
    }

    func header(_ name: String) -> String? { kept?.name == name ? kept?.value : nil }

    func nextChunk() async throws -> [UInt8]? {
        guard client.isOnLoopThread else {
            return try await withTaskExecutorPreference(client.executor) {
                try await self.nextChunk()
            }
        }
        // The wait is in this function: another async function between them would take memory for
        // every transfer, and time for every piece.
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
