// Decides the next request to the other server: a PUT for a complete file, or a DELETE for one that
// was uploaded and is not wanted any more. The folder is the queue of both: a file, or a note,
// stays until the server has answered, across restarts.
//
// Invariant: one request at a time, so that the DELETE of a file comes after its PUT. Files and
// deletions have pauses of their own: a server that takes files but deletes none gets its files as
// fast as ever. A file is removed only after the server has taken it.

import Glibc
import Logging
import Server
import Session

/// How a request to the other server ended.
enum UploadOutcome {
    /// It is done.
    case done
    /// The file that was to be deleted is not there.
    case missing
    /// It is not done, or there was no answer.
    case refused(ServiceFault?)
}

/// The other server.
protocol UploadReceiver {
    /// Sends a file.
    /// - Parameter place: where it goes, below the URL.
    func put(_ source: UploadSource, at place: String) -> UploadOutcome
    /// Deletes a file.
    func delete(_ place: String) -> UploadOutcome
}

/// Files to upload to the other server, and to delete from it. Confined to one thread.
final class UploadWork {
    /// Time between two looks for notes of other processes. 2 s: a look at an empty folder takes
    /// microseconds. One at many notes takes longer, and is made less often.
    static let lookInterval = Duration.seconds(2)
    private static let lookIntervalPerNote = Duration.microseconds(100)

    private let folder: RecordingFolder
    private let receiver: any UploadReceiver
    private let logger: Logger
    private let clock: () -> Instant
    private let faults = ServiceFaultLog()
    private var files = RetryQueue()
    private var erasures = RetryQueue()
    /// Files that wait for another attempt, and are in their day's list.
    private var listed: Set<UploadedFile> = []
    private var tally = RecordingCounts()
    private var nextLook: Instant
    /// Whether the last request was a deletion.
    private var lastWasErasure = false

    /// Starts with the files and notes in the folder.
    /// - Parameter clock: the time now.
    init(
        _ folder: RecordingFolder, for receiver: any UploadReceiver, logger: Logger,
        clock: @escaping () -> Instant = { MonotonicClock.now }
    ) {
        self.folder = folder
        self.receiver = receiver
        self.logger = logger
        self.clock = clock
        nextLook = clock()
        for file in folder.files() where file.isComplete { files.add(UploadedFile(file)) }
        look()
    }

    /// Its counts.
    var counts: RecordingCounts {
        var counts = tally
        counts.pendingUploads = files.count
        counts.pendingErasures = erasures.count
        return counts
    }

    /// When `step` has something to do.
    var deadline: Instant { [files.due, erasures.due].compactMap { $0 }.reduce(nextLook, min) }

    /// Adds a complete file.
    func add(_ file: UploadedFile) { files.add(file) }

    /// Looks for notes.
    func look() {
        for file in folder.notedErasures() { erasures.add(file) }
        nextLook = clock() + Self.lookInterval + Self.lookIntervalPerNote * erasures.count
    }

    /// Does the work that is due, with one request at most.
    func step() {
        let now = clock()
        if nextLook <= now { look() }
        // The request that was due first goes first, so that neither kind starves the other.
        let never = Instant(nanoseconds: .max)
        let (file, erasure) = (files.due ?? never, erasures.due ?? never)
        let isErasure = file == erasure ? !lastWasErasure : erasure < file
        guard min(file, erasure) <= now, let next = (isErasure ? erasures : files).first
        else { return }
        lastWasErasure = isErasure
        if isErasure { erase(next) } else { send(next) }
    }

    private func note(_ fault: ServiceFault?) {
        if let fault { faults.note(fault, at: clock(), logger: logger) }
    }

    // MARK: Files

    private func send(_ file: UploadedFile) {
        let path = "\(folder.path)/\(file.place)"
        do throws(UploadSourceError) {
            try UploadSource.check(path)
            // Before it is opened, so that a deletion finds the name or the file is gone.
            let isListed = listed.contains(file) || list(file)
            let source = try UploadSource(path)
            if isListed { listed.insert(file) }
            switch receiver.put(source, at: file.place) {
            case .done, .missing: noteSent(file, path, isListed: isListed)
            case .refused(let fault):
                note(fault)
                postpone()
            }
        } catch {
            switch error {
            case .gone: finish(file)
            case .unreadable(let reason):
                if !files.isFailing {
                    logger.warning(
                        "a recording cannot be read, and will be tried again",
                        metadata: ["file": "\(file.place)", "reason": "\(reason)"])
                }
                postpone()
            }
        }
    }

    /// Notes that the server has a file.
    private func noteSent(_ file: UploadedFile, _ path: String, isListed: Bool) {
        tally.uploads += 1
        finish(file)
        switch folder.remove(path) {
        case ENOENT:
            // It was removed while it was sent. The other process on this folder that did so may have
            // asked for its deletion too early.
            try? folder.noteErasures(of: [file])
            look()
        case 0:
            // A full disk has room for the name now.
            guard !isListed, !list(file) else { return }
            logger.warning(
                "an uploaded recording is not in its list: a deletion will not reach it",
                metadata: ["file": "\(file.place)"])
        default: break
        }
    }

    private func list(_ file: UploadedFile) -> Bool {
        UploadList(of: file.day, in: folder.path).append(file)
    }

    private func finish(_ file: UploadedFile) {
        listed.remove(file)
        files.finishFirst(at: clock())
    }

    private func postpone() {
        tally.failedUploads += 1
        files.postponeFirst(at: clock())
    }

    // MARK: Deletions

    private func erase(_ file: UploadedFile) {
        // The operator has given it up, or another server on this folder was faster.
        guard folder.hasNote(of: file) else { return erasures.finishFirst(at: clock()) }
        switch receiver.delete(file.place) {
        case .done: break
        case .missing:
            logger.info(
                "a recording that was to be deleted is not at the server of uploads",
                metadata: ["file": "\(file.place)"])
        case .refused(let fault):
            note(fault)
            tally.failedErasures += 1
            return erasures.postponeFirst(at: clock())
        }
        folder.removeNote(of: file)
        tally.erasures += 1
        erasures.finishFirst(at: clock())
    }
}
