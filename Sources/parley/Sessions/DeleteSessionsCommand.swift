// `parley sessions delete`: what is kept of a session, or of one caller, goes for good.

import ArgumentParser
import Records

/// Deletes records and recordings.
struct DeleteSessionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete the record and the recordings of a session, or of all of one caller.",
        discussion: """
            Without --yes it only lists what would be deleted. Sessions that have not ended are left. \
            Recordings are deleted in the folder of --recordings-folder; those that were uploaded are \
            not reached.

              parley sessions delete --caller +49301234567 --records records.db --yes
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

    @Option(help: "The folder of recordings; PARLEY_RECORDINGS_FOLDER where it is not given.")
    var recordingsFolder: String?

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
            let folder = recordingsFolder ?? environmentValues()["PARLEY_RECORDINGS_FOLDER"]
            let named = try place.named()
            let deleted: Int
            do throws(RecordError) {
                deleted = try delete(from: SessionErasure(named, recordingsFolder: folder))
            } catch {
                throw CommandFailure(description: "\(error)")
            }
            guard deleted > 0 else {
                throw CommandFailure(
                    description: "there is no record of "
                        + (caller.map { "the caller \($0)" } ?? "it"))
            }
            let recordings = folder == nil ? "; no folder of recordings was named" : ""
            reportLine(
                yes
                    ? "\(deleted) deleted\(recordings)"
                    : "nothing is deleted yet: --yes deletes these \(deleted)")
        }
    }

    /// Deletes, or only lists; prints the ids.
    /// - Returns: how many sessions there are.
    private func delete(from erasure: SessionErasure) throws(RecordError) -> Int {
        var found = ids
        if let caller { found = try erasure.sessions(of: caller) }
        for id in ids { try erasure.check(id) }
        for id in found {
            if yes { try erasure.erase(id) }
            print(id)
        }
        return found.count
    }
}
