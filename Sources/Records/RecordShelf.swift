// Answers an operator's questions about ended sessions: records from the file or the database, and
// recordings from the server's folder. One thread of its own does all of it, because a disk and a database
// may be slow, and no event loop waits for them.
//
// SessionErasure.swift has the order in which a session is deleted.

import Server
import Session
import Synchronization

/// The records and recordings of a server. Any thread.
public final class RecordShelf: RecordLibrary, @unchecked Sendable {
    /// Questions that may wait. 32: operators are few, and a recording is asked for piece by piece.
    static let maxWaiting = 32

    private struct Entry {
        let question: RecordQuestion
        let answer: @Sendable (RecordFinding) -> Void
    }

    /// Guards the properties down to `isStopping`. Signalled for each question and for the end.
    private let lock = ConditionLock()
    private var waiting: [Entry] = []
    private var isStopping = false

    private let place: String
    private let recordings: RecordingArchive?
    private let webhooks: DeletionWebhooks?
    private var thread: BackgroundThread?
    /// Only the thread uses it. Where nil, the thread opens it with the next question.
    private var browser: RecordBrowser?

    /// Starts the thread. The records are opened with the first question.
    /// - Parameters:
    ///   - place: a path, or a URL that begins with `postgres://`.
    ///   - recordings: the recordings, if there are any.
    ///   - settings: of the server's records, which say where webhooks of deletions go. Where nil,
    ///     none is sent.
    public init(
        _ place: String, recordings: RecordingArchive?, _ settings: RecordSettings? = nil
    ) {
        self.place = place
        self.recordings = recordings
        webhooks = settings.flatMap { settings in
            settings.webhooks.map { DeletionWebhooks($0.types, spool: settings.path) }
        }
        thread = BackgroundThread("record shelf", niceness: BackgroundThread.addedNiceness) {
            [self] in run()
        }
    }

    /// Asks; the thread answers.
    public func ask(
        _ question: RecordQuestion, answer: @escaping @Sendable (RecordFinding) -> Void
    ) -> Bool {
        lock.withLock {
            guard !isStopping, waiting.count < Self.maxWaiting else { return false }
            waiting.append(Entry(question: question, answer: answer))
            lock.signal()
            return true
        }
    }

    /// Answers the questions that wait, and ends.
    public func shutdown() {
        lock.withLock {
            isStopping = true
            lock.broadcast()
        }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        while let entry = next() { entry.answer(finding(to: entry.question)) }
        browser = nil
    }

    /// Waits for a question. The result is nil where no more come.
    private func next() -> Entry? {
        lock.withLock {
            while waiting.isEmpty, !isStopping { lock.wait() }
            return waiting.isEmpty ? nil : waiting.removeFirst()
        }
    }

    private func finding(to question: RecordQuestion) -> RecordFinding {
        if case .listen(let piece) = question { return listen(to: piece) }
        do throws(RecordError) {
            let browser = try openBrowser()
            switch question {
            case .list(let search):
                // One more than is shown says whether more follow.
                let rows = try browser.search(search, limit: search.limit + 1)
                let shown = Array(rows.prefix(search.limit))
                return .list(shown, hasMore: rows.count > shown.count)
            case .show(let id):
                let documents = try browser.documents(id)
                guard !documents.isEmpty else { return .missing }
                return .record(
                    documents: documents, recordings: recordings?.recordings(of: id) ?? [])
            case .delete(let id):
                let state = try browser.erase(id, telling: webhooks) { () throws(RecordError) in
                    try recordings?.removeRecordings(of: id)
                }
                return Self.finding(of: state)
            case .listen(let piece): return listen(to: piece)
            }
        } catch {
            // A database that was away is connected to again.
            browser = nil
            return .failed("\(error)")
        }
    }

    private func openBrowser() throws(RecordError) -> RecordBrowser {
        if let browser { return browser }
        let opened = try RecordBrowser(place, isReadOnly: false)
        browser = opened
        return opened
    }

    private func listen(to piece: RecordingPiece) -> RecordFinding {
        guard let (bytes, total) = recordings?.read(piece) else { return .missing }
        return .piece(bytes, of: total)
    }

    /// The result of a deletion.
    private static func finding(of state: RecordBrowser.State) -> RecordFinding {
        switch state {
        case .missing: .missing
        case .open: .open
        case .ended: .deleted
        }
    }
}
