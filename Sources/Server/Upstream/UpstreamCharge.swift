// What the requests of one session, or of one text request, make the process hold: what libcurl
// has allocated while it worked for them, and our side of each transfer. A session's requests share
// one account, which exists while one of them does.
//
// A connection that libcurl keeps for the next request is charged to whose request made it, and
// moves to the shared account with the end of that. Where several requests share one connection
// (HTTP/2), its bytes are charged to the one that libcurl named last for its socket.

/// The account of one owner's requests. Confined to the loop's thread.
final class UpstreamCharge {
    /// What pays while libcurl works for the owner.
    let account = NativeAccount()
    /// Bytes of our own: the transfers' objects, their pieces that wait.
    private(set) var ownBytes = 0
    /// Transfers that have not ended.
    private(set) var transfers = 0

    /// All of it.
    var heldBytes: Int { account.heldBytes + ownBytes + NativeMemory.blockBytes(of: self) }

    /// A transfer begins, which takes so much itself.
    func handleBeginning(ownBytes: Int) {
        transfers += 1
        self.ownBytes += ownBytes
    }

    /// One has ended.
    func handleEnd(ownBytes: Int) {
        transfers -= 1
        self.ownBytes -= ownBytes
        assert(transfers >= 0 && self.ownBytes >= 0)
    }

    /// More of an answer waits for its consumer, or less.
    func addPending(_ bytes: Int) { ownBytes += bytes }
}
