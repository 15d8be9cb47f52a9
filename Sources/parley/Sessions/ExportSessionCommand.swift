// `parley sessions export`: the record of a session as JSON, or its recording as one file for a person,
// which StereoMix makes.

import ArgumentParser
import Records

/// Exports the data of a session.
struct ExportSessionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write the record of a session as JSON, or its recording as a stereo WAV file.",
        discussion: """
            A session that several servers have had has a document of each, one a line, unless its \
            servers share one file.

            With --stereo the user is on the left, the agent on the right, as it was heard. The \
            files of a recording lie in the folder that the server was given as \
            --recordings-folder.
            """)

    @Argument(
        help: "The session's id, sess_…; sess_…-184512 is its recording from 18:45:12 UTC on.")
    var id: String

    @OptionGroup var place: RecordPlaceOptions

    @Flag(help: "Mix both sides of the recording into one stereo file.")
    var stereo = false

    @Option(help: "The file to write; standard output by default, but not with --stereo.")
    var out: String?

    @Option(help: "The folder of recordings; by default as the server has it.")
    var recordingsFolder: String?

    func validate() throws {
        guard !stereo || out != nil else {
            throw ValidationError("name the WAV file: --out FILE")
        }
    }

    func run() throws {
        try reportingFailure {
            if stereo, let out { try exportRecording(to: out) } else { try exportRecord() }
        }
    }

    private func exportRecord() throws(CommandFailure) {
        let text = try place.documents(id).joined(separator: "\n") + "\n"
        guard let out else { return print(text, terminator: "") }
        guard writeWholeFile(out, Array(text.utf8)) else {
            throw CommandFailure(description: "\(out) cannot be written")
        }
    }

    private func exportRecording(to out: String) throws(CommandFailure) {
        let settings = try place.settings(["recordings-folder": recordingsFolder])
        guard let folder = settings.recordings.folder else {
            throw .usage("name the folder of recordings: --recordings-folder DIR")
        }
        let files = try files(in: folder)
        let seconds = try StereoMix.write(user: files.user, agent: files.agent, to: out)
        reportLine("\(out): \(seconds) s of \(id), the user left, the agent right")
        if !files.others.isEmpty {
            reportLine("there are more of it: \(files.others.joined(separator: ", "))")
        }
    }

    private func files(in folder: String) throws(CommandFailure) -> RecordedSession {
        do throws(RecordedSessionError) {
            return try RecordedSession(id, in: folder)
        } catch {
            switch error {
            case .missing(let others):
                let hint =
                    others.isEmpty
                    ? "was it uploaded?" : "it has \(others.joined(separator: ", "))"
                throw CommandFailure(description: "\(folder) has no recording of \(id); \(hint)")
            case .inProgress:
                throw CommandFailure(description: "\(id) is still being recorded")
            }
        }
    }
}
