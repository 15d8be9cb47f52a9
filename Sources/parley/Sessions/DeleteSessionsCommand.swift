// `parley sessions delete`: deletes the data of a session, or of one caller, for good.

import ArgumentParser
import Records

/// Deletes records and recordings.
struct DeleteSessionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete the record and the recordings of a session, or of all of one caller.",
        discussion: """
            Without --yes it only lists what would be deleted. Sessions that have not ended are left. \
            It does what DELETE /admin/records/ID does: recordings in the server's folder go, too; what \
            was uploaded of them the server deletes where it is, and it tells the receiver of webhooks. \
            So it needs the server's settings: its configuration file, its variables, or the options \
            below.

              parley sessions delete --caller +49301234567 --config parley.yaml --yes
            """)

    @Argument(help: "Ids of sessions, sess_….")
    var ids: [String] = []

    @Option(
        help: """
            All sessions of this caller: the name of a key, the subject of a token, or the number that \
            calls came from, as the carrier writes it.
            """)
    var caller: String?

    @OptionGroup var place: RecordPlaceOptions

    @Option(help: "The folder of recordings; by default as the server has it.")
    var recordingsFolder: String?

    @Option(
        name: .customLong("webhook-url"),
        help: "The receiver of webhooks, which the server tells; by default as the server has it.")
    var webhookURL: String?

    @Option(
        help: "With PostgreSQL, the server's file of webhooks; by default as the server has it.")
    var recordsSpool: String?

    @Flag(help: "Delete; without it nothing is.")
    var yes = false

    func validate() throws {
        guard ids.isEmpty != (caller == nil) else {
            throw ValidationError("name sessions by their ids, or one --caller")
        }
        guard caller?.isEmpty != true else { throw ValidationError("--caller is empty") }
    }

    func run() throws {
        try reportingFailure {
            let settings = try place.settings([
                "recordings-folder": recordingsFolder, "webhook-url": webhookURL,
                "records-spool": recordsSpool,
            ])
            let records = try RecordPlaceOptions.named(by: settings)
            let (found, uploaded): (Int, Int)
            do throws(RecordError) {
                (found, uploaded) = try delete(
                    from: SessionErasure(
                        records, recordingsFolder: settings.recordings.folder,
                        telling: settings.records.deletionWebhooks))
            } catch {
                throw CommandFailure(description: "\(error)")
            }
            guard found > 0 else {
                throw CommandFailure(
                    description: "there is no record of "
                        + (caller.map { "the caller \($0)" } ?? "it"))
            }
            reportLine(
                yes ? "\(found) deleted" : "nothing is deleted yet: --yes deletes these \(found)")
            if uploaded > 0 {
                reportLine(
                    "\(uploaded) uploaded files: the server deletes them at recordings-url, within "
                        + "seconds or after its next start")
            }
            let missed = notReached(settings)
            if !missed.isEmpty { reportLine("not reached: \(missed.joined(separator: "; "))") }
        }
    }

    /// The places that the command cannot delete from, or does not know of. Where there is a
    /// configuration file, a setting that it does not have is known to be off.
    private func notReached(_ settings: ServeSettings) -> [String] {
        var missed: [String] = []
        if settings.recordings.folder == nil, !place.hasConfiguration {
            missed.append("recordings (no recordings-folder is set)")
        }
        if settings.records.webhookURL == nil, !place.hasConfiguration {
            missed.append("the receiver of webhooks (no webhook-url is set)")
        }
        return missed
    }

    /// Deletes, or only lists; prints the ids.
    /// - Returns: how many sessions there are, and how many uploaded files the server is to delete.
    private func delete(
        from erasure: SessionErasure
    ) throws(RecordError) -> (found: Int, uploaded: Int) {
        let found = try caller.map { caller throws(RecordError) in
            try erasure.sessions(of: caller)
        }
        // One that cannot be deleted refuses all, before anything is gone.
        for id in found ?? ids { try erasure.check(id) }
        var uploaded = 0
        for id in found ?? ids {
            if yes { uploaded += try erasure.erase(id) }
            print(id)
        }
        return ((found ?? ids).count, uploaded)
    }
}
