// The port to what keeps records of conversations: a file, a database. The layer Records implements
// it.

/// Keeps the changes of sessions. Any thread.
public protocol RecordKeeper: Sendable {
    /// Takes a change. It returns at once: the change is written by another thread.
    /// - Returns: false where too much waits to be written: the change is lost, unless the caller
    ///   gives it again.
    func keep(_ change: RecordChange) -> Bool

    /// Its counts now.
    var counts: RecordCounts { get }

    /// Whether `reload` reads something.
    var isReloadable: Bool { get }

    /// Reads what it has from files anew. A bad file changes nothing, and its error is thrown.
    func reload() throws

    /// Writes all that waits, as far as that is possible, and ends. It may take seconds.
    func shutdown()
}

extension RecordKeeper {
    /// It has nothing to reload.
    public var isReloadable: Bool { false }
    /// By default there is nothing to read.
    public func reload() throws {}
}

/// The counts of a keeper since the start, and what waits now.
public struct RecordCounts: Equatable, Sendable {
    /// Changes that were written.
    public var written = 0
    /// Changes that were not taken, because too much waited.
    public var refused = 0
    /// Attempts to write that failed. The changes wait for another.
    public var failures = 0
    /// Bytes of changes that wait in memory.
    public var queuedBytes = 0
    /// Ended sessions that wait in the spool for their database.
    public var spooledSessions = 0
    /// Bytes of the spool on disk.
    public var spoolBytes = 0
    /// Sessions that were written to the database.
    public var deliveredSessions = 0
    /// Events that wait for the receiver of webhooks.
    public var waitingWebhooks = 0
    /// Events that the receiver has taken.
    public var deliveredWebhooks = 0
    /// Attempts that the receiver has refused or not answered.
    public var failedWebhooks = 0
    /// Events that were dropped: after the last attempt, or because too many waited.
    public var lostWebhooks = 0

    /// All zero.
    public init() {}
}
