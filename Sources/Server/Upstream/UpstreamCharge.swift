// The memory of the upstream requests of one session, or of one text request: libcurl's allocations
// for them, and our side of each transfer. A session's requests share one account, which exists as
// long as one of the requests.
//
// A connection that libcurl keeps for the next request is charged to the owner of the request that
// made it, and to the shared account after that. Where several requests share one connection
// (HTTP/2), its bytes are charged to the one that libcurl named last for its socket.

/// The account of one owner's requests. Confined to the loop's thread.
final class UpstreamCharge {
    /// The account that libcurl's allocations for the owner are charged to.
    let account = NativeAccount()
    /// Bytes of this server's own: the transfers' objects, and the pieces that wait.
    private(set) var ownBytes = 0
    /// Transfers that have not ended.
    private(set) var transfers = 0

    /// Bytes of all parts.
    var heldBytes: Int { account.heldBytes + ownBytes + NativeMemory.blockBytes(of: self) }

    /// Charges a transfer that begins, with its own bytes.
    func handleBeginning(ownBytes: Int) {
        transfers += 1
        self.ownBytes += ownBytes
    }

    /// Ends the charge of a transfer.
    func handleEnd(ownBytes: Int) {
        transfers -= 1
        self.ownBytes -= ownBytes
        assert(transfers >= 0 && self.ownBytes >= 0)
    }

    /// Changes the bytes of answers that wait for their consumers.
    func addPending(_ bytes: Int) { ownBytes += bytes }
}
