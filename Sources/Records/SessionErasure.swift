// Deleting what is kept of sessions, for a person at the command line: of one by its id, or of all that
// one caller has had. RecordShelf does the same for the operator's page.
//
// Not here: recordings that were uploaded, and those in the folders of other servers.

import Codec
import Session

/// Deletes records and recordings of ended sessions. Confined to one thread.
public struct SessionErasure {
    private let browser: RecordBrowser
    private let recordings: RecordingFolder?

    /// Opens what is to be deleted from.
    /// - Parameters:
    ///   - place: of the records, as `RecordBrowser` takes it.
    ///   - folder: of the recordings; nil: there are none.
    /// - Throws: `RecordError` where one of them cannot be opened.
    public init(_ place: String, recordingsFolder folder: String?) throws(RecordError) {
        browser = try RecordBrowser(place, isReadOnly: false)
        do throws(RecordingFolderError) {
            recordings = try folder.map { path throws(RecordingFolderError) in
                try RecordingFolder(path, maxBytes: 0)
            }
        } catch {
            throw RecordError("\(error)")
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
                // The search finds the words in what was said, too.
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
        switch try browser.state(of: id) {
        case .missing: throw RecordError("there is no record of \(id)")
        case .ended: break
        case .open: throw RecordError("\(id) has not ended: end it first, or wait")
        }
    }

    /// Deletes an ended session: first its recordings, and then its record, so that one that failed in
    /// between is still found.
    public func erase(_ id: String) throws(RecordError) {
        recordings?.removeRecordings(of: [id])
        try browser.delete(id)
    }
}
