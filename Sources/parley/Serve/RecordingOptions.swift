// Where recordings are kept, and where they go. The server's own setting `recordings` says which
// sessions are recorded, because a credential may say otherwise.

import Codec
import Logging
import Records
import Server
import Session

/// The folder of recordings, its limits, and the server that complete files go to.
struct RecordingOptions: Sendable {
    /// The folder. Without one, nothing is recorded.
    var folder: String?
    /// 16 GiB: 700 hours of conversation.
    var maxBytes = 16 << 30
    /// 32 MiB: five minutes of one session's PCM, or a second of 300.
    var maxQueuedBytes = 32 << 20
    /// 1: encodes 150 sessions whose clients send PCM or G.711. Opus is not encoded again.
    var threads = 1
    /// For ever.
    var retentionDays = 0
    /// Where complete files go.
    var url: String?
    /// The key for that server.
    var key: String?
    /// The region of that server.
    var region = "us-east-1"

    /// The settings that change these.
    static let settings = SettingGroup<Self>(.recordings, all)

    private static let all: [Setting<Self>] = [
        .optionalText(
            "recordings-folder", \.folder, "a folder",
            """
            Folder of recordings: for each session two Ogg Opus files of one timeline, the user as \
            heard and the agent as played. docs/recordings.md has more.
            """),
        .integer(
            "recordings-max-bytes", \.maxBytes, 0...(1 << 50), unit: "bytes",
            """
            Bytes of all files in the folder. Audio beyond that is dropped, counted and leaves a \
            gap. 0 is no limit.
            """),
        .integer(
            "recordings-queue-bytes", \.maxQueuedBytes, (1 << 20)...(1 << 40), unit: "bytes",
            "Audio that may wait for the threads of recordings; more is dropped and counted."),
        .integer(
            "recordings-threads", \.threads, 1...64, unit: "threads",
            "Threads that encode and write recordings."),
        .integer(
            "recordings-retention-days", \.retentionDays, 0...36_500, unit: "days",
            """
            How long complete files are kept in the folder after the day (UTC) on which they began, \
            uploaded or not, and names of uploaded ones, by which a deletion reaches them. 0 is until \
            they are uploaded or removed by others; names are then kept for ever.
            """),
        .url(
            "recordings-url", \.url,
            """
            Where complete files go by PUT: their day and name are appended. A file stays in the \
            folder until that server has taken it. A deletion goes there as DELETE.
            """),
        .serviceKey(
            "recordings-url-key", \.key,
            "ACCESS:SECRET for the signature of S3 (AWS version 4); without it requests have none."),
        .text(
            "recordings-url-region", \.region, "a region", "The region of that signature."),
    ]

    /// Opens the folder, or returns nil where none is named.
    /// - Throws: where a session was to be recorded and cannot be.
    func keeper(
        _ server: ServerConfiguration, _ logger: Logger
    ) throws(CommandFailure) -> RecordingArchive? {
        guard let folder else {
            guard server.recordings.rule == .none else {
                throw CommandFailure(
                    description: "recordings needs recordings-folder: where they are kept")
            }
            return nil
        }
        if let key, !key.contains(":") {
            throw CommandFailure(description: "recordings-url-key must be ACCESS:SECRET")
        }
        var settings = RecordingSettings(folder: folder)
        settings.maxBytes = maxBytes
        settings.maxQueuedBytes = maxQueuedBytes
        settings.threads = threads
        settings.days = retentionDays
        if let url {
            settings.upload = RecordingUpload(
                url: url, key: key, region: region, authorities: server.upstream.authorities)
            settings.upload?.proxy = server.upstream.proxy.curlOption
            guard settings.upload != nil else {
                throw CommandFailure(
                    description: "recordings-url must have no query: names are appended to it")
            }
        }
        do throws(RecordingFolderError) {
            return try RecordingArchive(settings, logger: logger)
        } catch {
            throw CommandFailure(description: "\(error)")
        }
    }
}
