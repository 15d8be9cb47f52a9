// The settings of this layer: where records are kept, and which receiver gets webhooks.

import Session

/// The settings of records and webhooks.
public struct RecordSettings: Sendable {
    /// Where records go in the end.
    public enum Destination: Equatable, Sendable {
        /// Nowhere: the file serves webhooks alone.
        case none
        /// Records stay in the file.
        case file
        /// A PostgreSQL database, by its `postgres://` URL. The file is its spool.
        case postgreSQL(url: String)
    }

    /// Path of the SQLite file.
    public var path: String
    /// Where records go in the end.
    public var destination: Destination
    /// Days for which an ended session's record is kept. Nil means for ever.
    public var days: Int?
    /// The parts of the words that are removed before they are written.
    public var redaction: RecordRedaction
    /// Bytes that the file may have while it is the spool. 1 GiB by default: 80,000 records of ten
    /// typed turns, of 13 kB each. Above it sessions that it does not have are not recorded.
    public var maxSpoolBytes = 1 << 30
    /// Bytes of changes that may wait in memory. 64 MiB by default: some
    /// 30,000 changes of a typed turn.
    public var maxQueuedBytes = 64 << 20
    /// The receiver of webhooks. Nil means that none are sent.
    public var webhooks: WebhookSettings?

    /// Creates settings.
    public init(
        path: String, destination: Destination, days: Int? = nil,
        redaction: RecordRedaction = .none, webhooks: WebhookSettings? = nil
    ) {
        (self.path, self.destination, self.days) = (path, destination, days)
        (self.redaction, self.webhooks) = (redaction, webhooks)
    }
}

/// The receiver of webhooks.
public struct WebhookSettings: Sendable {
    /// Its URL.
    public var url: String
    /// The secrets that it may know events by: each event has a signature by each. At least one.
    public var secrets: [WebhookSecret]
    /// Reads the secrets anew, from their file. Nil means that they are not from a file.
    public var rereadSecrets: (@Sendable () throws -> [WebhookSecret])?
    /// The events that it wants.
    public var types: Set<WebhookEventType> = Set(WebhookEventType.allCases)
    /// Time that it may take to answer. 15 s by default, as Standard Webhooks advises.
    public var timeout = Duration.seconds(15)
    /// PEM file of the authorities that its certificate is checked against. Nil means the system's.
    public var authorities: String?
    /// libcurl's option for the proxy. Nil means that the environment variables decide.
    public var proxy: String?

    /// Creates settings.
    public init(url: String, secrets: [WebhookSecret]) {
        (self.url, self.secrets) = (url, secrets)
    }
}
