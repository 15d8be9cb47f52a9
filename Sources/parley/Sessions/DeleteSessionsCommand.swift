// `parley sessions delete`: erases sessions, by their ids or by their caller.

import ArgumentParser
import Records

/// Erases what is kept of sessions.
struct DeleteSessionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete", abstract: "Delete sessions: their records and recordings.",
        discussion: """
            Without --yes it lists the sessions and deletes nothing. A session that is open is \
            refused. What was uploaded, or told to a webhook's receiver, is to be deleted there.
            """)

    @Argument(help: "Ids of sessions, sess_….")
    var ids: [String] = []

    @Option(
        help: "All sessions of a caller: the telephone number, or the subject of its key or token.")
    var caller: String?

    @OptionGroup var place: RecordPlaceOptions

    @Option(help: "The folder of recordings; PARLEY_RECORDINGS_FOLDER where it is not given.")
    var recordingsFolder: String?

    @Flag(help: "Delete them.")
    var yes = false

    func validate() throws {
        guard ids.isEmpty != (caller == nil) else {
            throw ValidationError("name sessions by their ids, or --caller")
        }
    }

    func run() throws {
        try reportingFailure {
            let folder = recordingsFolder ?? environmentValues()["PARLEY_RECORDINGS_FOLDER"]
            let place = try place.place()
            do {
                try delete(with: RecordEraser(place, recordings: folder))
            } catch let error as RecordError {
                throw CommandFailure(description: "\(error)")
            }
        }
    }

    private func delete(with eraser: RecordEraser) throws {
        let sessions = try caller.map { try eraser.sessions(ofCaller: $0) } ?? ids
        guard yes else {
            for id in sessions { print(id.visible()) }
            throw CommandFailure(
                description: "nothing is deleted: give --yes to delete \(sessions.count) sessions")
        }
        var isFound = false
        for id in sessions {
            let erased = try eraser.erase(id)
            isFound = isFound || !erased.isEmpty
            print("\(id.visible()): \(erased.records) records, \(erased.files) files of recordings")
        }
        guard isFound else { throw CommandFailure(description: "there is no such session") }
    }
}
