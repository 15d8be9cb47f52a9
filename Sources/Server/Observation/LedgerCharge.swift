// The charge of one owner of memory, as metrics count it. LedgerKeeper settles it.

import Session

/// The charge of one owner, as of its last settling.
struct LedgerCharge {
    var bytes: UInt32 = 0
    /// The state in which it was. Nil means that it is charged nothing.
    var state: SessionState?
}
