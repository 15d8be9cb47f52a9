// The options of records and webhooks: whether and where records of conversations are kept, and which
// receiver gets webhooks. They make the settings of the layer Records.

import Records
import Server
import Session

/// The options of records and webhooks.
struct RecordOptions: Sendable {
    /// Where records are kept: a path, or the URL of a PostgreSQL database. Without it, none are
    /// kept.
    var records: String?
    /// Path of the file in which records and webhooks wait for others.
    var spool = "parley-spool.db"
    /// Days for which records are kept; 0: for ever.
    var days = 30
    /// The parts of the words that are removed.
    var redaction = RecordRedaction.none
    /// Bytes that the spool may have.
    var spoolBytes = 1 << 30
    /// Bytes of changes that may wait in memory.
    var queueBytes = 64 << 20
    /// The receiver of webhooks, or nil.
    var webhookURL: String?
    /// The secrets that it may know events by.
    var webhookSecrets: [WebhookSecret] = []
    /// The file of further secrets, or nil.
    var webhookSecretFile: String?
    /// The events that it wants.
    var webhookEvents = WebhookEventType.allCases.map(WebhookEventName.init)
    /// Seconds that it may take to answer.
    var webhookTimeout = Duration.seconds(15)

    /// The settings that change these.
    static let settings = SettingGroup<Self>(.records, all)

    private static let all: [Setting<Self>] = [
        .optionalText(
            "records", \.records, "a path, or a URL that begins with postgres://", isSecret: true,
            """
            Keep a record of each conversation: in this SQLite file, or in this PostgreSQL \
            database. Without it no record is kept.
            """),
        .text(
            "records-spool", \.spool, "a path",
            """
            File in which records wait for a PostgreSQL database, and events for the receiver of \
            webhooks. It must survive a restart. Records in an SQLite file need no spool.
            """),
        .integer(
            "records-days", \.days, 0...36_500, unit: "days",
            "How long the record of a session is kept after its end; 0 is for ever."),
        .choice(
            "records-redaction", \.redaction,
            """
            What is taken out of the words before they are written: nothing (none), digits and \
            spelt-out numbers (digits), or all words (text).
            """),
        .integer(
            "records-spool-bytes", \.spoolBytes, 1 << 20...1 << 40, unit: "bytes",
            """
            Bytes in use in the spool above which sessions that begin are not recorded. 1 GiB are \
            some 80,000 records of ten typed turns.
            """),
        .integer(
            "records-queue-bytes", \.queueBytes, 1 << 20...1 << 34, unit: "bytes",
            "Bytes of changes that may wait in memory for a file that cannot be written."),
        .url(
            "webhook-url", \.webhookURL,
            "Receiver of events about sessions, signed as Standard Webhooks has it."),
        .secrets(
            "webhook-secret", \.webhookSecrets, of: "whsec_ and 24 to 64 bytes in Base64",
            """
            Secret that the receiver of webhooks knows events by, or several: an event has a \
            signature by each, so that a receiver may change from one to the next. Prefer the \
            variable or the file: flags are visible to every user of the machine.
            """),
        .optionalText(
            "webhook-secret-file", \.webhookSecretFile, "a file",
            """
            File of secrets of the receiver of webhooks, one a line, beside those of \
            webhook-secret. SIGHUP reads the file again: add the new secret, and remove the old one \
            once the receiver knows the new one.
            """),
        .list(
            "webhook-events", \.webhookEvents,
            of: WebhookEventType.allCases.map(\.rawValue).joined(separator: ", "),
            "The events that the receiver of webhooks gets."),
        .milliseconds(
            "webhook-timeout-ms", \.webhookTimeout, 100...120_000,
            "Time that the receiver of webhooks has for its answer."),
    ]

    /// The settings of the layer, or nil where neither records nor webhooks are configured.
    /// - Parameter server: how services are reached.
    func recordSettings(_ server: ServerConfiguration) throws(CommandFailure) -> RecordSettings? {
        let webhooks = try webhookSettings(server)
        guard records != nil || webhooks != nil else { return nil }
        let destination: RecordSettings.Destination =
            switch records {
            case nil: .none
            case let url? where RecordBrowser.isPostgreSQL(url): .postgreSQL(url: url)
            case _?: .file
            }
        var settings = RecordSettings(path: filePath, destination: destination)
        settings.days = days == 0 ? nil : days
        settings.redaction = redaction
        settings.maxSpoolBytes = spoolBytes
        settings.maxQueuedBytes = queueBytes
        settings.webhooks = webhooks
        return settings
    }

    /// Path of the file: that of the records, or the spool.
    private var filePath: String {
        guard let records, !RecordBrowser.isPostgreSQL(records) else { return spool }
        return records
    }

    /// Writes the webhooks of deletions, or nil where there is no receiver.
    var deletionWebhooks: DeletionWebhooks? {
        webhookURL.map { _ in
            DeletionWebhooks(Set(webhookEvents.map(\.type)), spool: filePath)
        }
    }

    private func webhookSettings(
        _ server: ServerConfiguration
    ) throws(CommandFailure) -> WebhookSettings? {
        guard let webhookURL else { return nil }
        var secrets = webhookSecrets
        if let webhookSecretFile { secrets += try Self.secrets(in: webhookSecretFile) }
        guard !secrets.isEmpty else {
            throw .usage(
                "webhook-url: the receiver needs a secret: give webhook-secret or "
                    + "webhook-secret-file, too")
        }
        var settings = WebhookSettings(url: webhookURL, secrets: secrets)
        if let webhookSecretFile {
            settings.rereadSecrets = { [webhookSecrets] in
                webhookSecrets + (try Self.secrets(in: webhookSecretFile))
            }
        }
        settings.types = Set(webhookEvents.map(\.type))
        settings.timeout = webhookTimeout
        settings.authorities = server.upstream.authorities
        settings.proxy = server.upstream.proxy.curlOption
        return settings
    }

    /// The secrets of a file, one a line; empty lines and lines that begin with # are ignored.
    private static func secrets(in path: String) throws(CommandFailure) -> [WebhookSecret] {
        let text: String
        do throws(WholeFileError) { text = try WholeFile.readText(path) } catch {
            throw CommandFailure(description: "webhook-secret-file: \(error.problem(of: path))")
        }
        var secrets: [WebhookSecret] = []
        for (index, line) in text.split(
            omittingEmptySubsequences: false, whereSeparator: \.isNewline
        ).enumerated() {
            guard let word = SettingText.read(line), !word.isEmpty, !word.hasPrefix("#")
            else { continue }
            guard let secret = WebhookSecret(word) else {
                throw CommandFailure(
                    description: "webhook-secret-file: \(path) line \(index + 1): must be "
                        + "whsec_ and 24 to 64 bytes in Base64")
            }
            secrets.append(secret)
        }
        guard (1...WebhookSecret.maxSecrets).contains(secrets.count) else {
            throw CommandFailure(
                description: "webhook-secret-file: \(path) must have 1 to "
                    + "\(WebhookSecret.maxSecrets) secrets, one a line")
        }
        return secrets
    }
}

/// An event of webhooks as the option spells it.
struct WebhookEventName: LosslessStringConvertible, Sendable {
    let type: WebhookEventType

    var description: String { type.rawValue }

    init(_ type: WebhookEventType) { self.type = type }

    init?(_ description: String) {
        guard let type = WebhookEventType(rawValue: description) else { return nil }
        self.type = type
    }
}
