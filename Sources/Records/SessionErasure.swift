// Deletes the records and recordings of ended sessions. RecordShelf does it for the operator's page
// and `DELETE /admin/records/ID`, SessionErasure at the command line: for one session by its id, or
// for all sessions of one caller. Both go through `RecordBrowser.erase`.
//
// Uploaded files are noted in the folder of recordings (RecordingErasures), and the server deletes
// them. Recordings in the folders of other servers are not reached.
//
// Invariant: a session is deleted from the records only after its recordings are gone. Where that fails in
// between, its record is still listed, and deleting it again finishes the work.

import Codec
import Glibc
import Session

extension RecordBrowser {
    /// Deletes an ended session: its recordings, its record, and its webhooks that were not
    /// delivered yet. A webhook reports the deletion.
    /// - Parameters:
    ///   - webhooks: writes the webhook, or nil where there is no receiver.
    ///   - removeRecordings: deletes the recordings of the session.
    /// - Returns: the session's state. Nothing is deleted where that is not `ended`.
    func erase(
        _ id: String, telling webhooks: DeletionWebhooks?,
        removeRecordings: () throws(RecordError) -> Void
    ) throws(RecordError) -> State {
        let state = try state(of: id)
        guard state == .ended else { return state }
        try removeRecordings()
        try delete(id, telling: webhooks)
        return state
    }
}

/// Deletes records and recordings of ended sessions. Confined to one thread.
public struct SessionErasure {
    private let browser: RecordBrowser
    private let recordings: RecordingFolder?
    private let webhooks: DeletionWebhooks?

    /// Opens the records and the recordings to delete from. It creates neither.
    /// - Parameters:
    ///   - place: the place of the records, as `RecordBrowser` takes it.
    ///   - folder: the folder of the recordings, if there is one.
    ///   - webhooks: writes the webhook, or nil where there is no receiver.
    /// - Throws: `RecordError` where one of them cannot be opened.
    public init(
        _ place: String, recordingsFolder folder: String?, telling webhooks: DeletionWebhooks? = nil
    ) throws(RecordError) {
        if !RecordBrowser.isPostgreSQL(place) { try Self.requireFile(place, "the records") }
        browser = try RecordBrowser(place, isReadOnly: false)
        if let webhooks { try Self.requireFile(webhooks.spool, "the spool of webhooks") }
        self.webhooks = webhooks
        if let folder { try Self.requireFile(folder, "the recordings") }
        do throws(RecordingFolderError) {
            recordings = try folder.map { path throws(RecordingFolderError) in
                try RecordingFolder(path, maxBytes: 0)
            }
        } catch {
            throw RecordError("\(error)")
        }
    }

    private static func requireFile(_ path: String, _ content: String) throws(RecordError) {
        guard access(path, F_OK) == 0 else {
            throw RecordError(
                "\(content) cannot be opened: \(path): \(String(cString: strerror(errno)))")
        }
    }

    /// The ended sessions of one caller, the newest first.
    /// - Parameter caller: the name of a key, the subject of a token, or the number that a call came
    ///   from, as the carrier has written it. Not the number that was called: that is the operator's.
    public func sessions(of caller: String) throws(RecordError) -> [String] {
        var found: [String] = []
        var search = RecordSearch()
        search.text = caller
        search.limit = RecordSearch.limits.upperBound
        while true {
            let page = try browser.search(search, limit: search.limit)
            for listing in page {
                let documents = try browser.documents(listing.id)
                // The search finds the words in the conversation, too.
                if documents.contains(where: { Self.isOf(caller, $0) }) { found.append(listing.id) }
            }
            guard page.count == search.limit, let last = page.last else { return found }
            search.after = .init(startedAt: last.startedAt, id: last.id)
        }
    }

    private static func isOf(_ caller: String, _ document: String) -> Bool {
        // A value is good only as long as its parser.
        let parser = JSONParser()
        guard let session = (try? parser.parse(Array(document.utf8)))?["session"] else {
            return false
        }
        return [session["subject"], session["call"]?["from"]].contains { $0?.string == caller }
    }

    /// Looks whether a session can be erased.
    /// - Throws: `RecordError` where there is no record of it, or it has not ended.
    public func check(_ id: String) throws(RecordError) {
        try check(id, browser.state(of: id))
        try requireCompleteRecordings(of: id)
    }

    /// Deletes an ended session, as `check` has found it.
    /// - Returns: how many uploaded files the server is to delete.
    @discardableResult
    public func erase(_ id: String) throws(RecordError) -> Int {
        var uploaded = 0
        let state = try browser.erase(id, telling: webhooks) { () throws(RecordError) in
            try requireCompleteRecordings(of: id)
            do throws(RecordingFolderError) { uploaded = try recordings?.erase([id]) ?? 0 } catch {
                throw RecordError("\(error)")
            }
        }
        try check(id, state)
        return uploaded
    }

    private func check(_ id: String, _ state: RecordBrowser.State) throws(RecordError) {
        switch state {
        case .missing: throw RecordError("there is no record of \(id)")
        case .ended: break
        case .open: throw RecordError("\(id) has not ended: end it first, or wait")
        }
    }

    /// Only the server that writes a file can discard it. Without its record, the file that it becomes
    /// would not be found again.
    private func requireCompleteRecordings(of id: String) throws(RecordError) {
        guard let file = recordings?.unfinishedFiles(of: id).first else { return }
        throw RecordError(
            "\(id) is left: \(file.path) is not complete; its server writes it, or completes it at its "
                + "next start")
    }
}
