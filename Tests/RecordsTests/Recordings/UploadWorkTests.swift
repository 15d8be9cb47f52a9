// What is asked of the other server: on a virtual clock, with a server that is a list of names. The
// folder is a real one.

import Foundation
import Logging
import Session
import Testing

@testable import Records

/// A server of uploads in memory.
private final class Shelf: UploadReceiver {
    /// What it has.
    var places: Set<String> = []
    /// What it was asked, in order.
    var requests: [String] = []
    /// When each request was made.
    var times: [Instant] = []
    var isAway = false
    var refusesDeletions = false
    /// What happens elsewhere while it takes a file.
    var whilePutting: (String) throws -> Void = { _ in }
    let clock: Clock

    init(_ clock: Clock) { self.clock = clock }

    func put(_ source: UploadSource, at place: String) -> UploadOutcome {
        note("PUT \(place)")
        #expect(throws: Never.self) { try whilePutting(place) }
        guard !isAway else { return .refused(nil) }
        places.insert(place)
        return .done
    }

    func delete(_ place: String) -> UploadOutcome {
        note("DELETE \(place)")
        guard !isAway, !refusesDeletions else { return .refused(nil) }
        return places.remove(place) == nil ? .missing : .done
    }

    private func note(_ request: String) {
        requests.append(request)
        times.append(clock.now)
    }
}

private final class Clock {
    var now = Instant.milliseconds(0)
}

@Suite struct UploadWorkTests {
    private let folder = RecordingArchiveTests.Folder()
    private let clock = Clock()
    private let server: Shelf

    init() { server = Shelf(clock) }

    private func place() throws -> RecordingFolder { try RecordingFolder(folder.path, maxBytes: 0) }

    private func work(_ place: RecordingFolder) -> UploadWork {
        let clock = clock
        return UploadWork(place, for: server, logger: Logger(label: "test")) { clock.now }
    }

    /// Does what is due in some seconds.
    private func run(_ work: UploadWork, forSeconds seconds: Int = 1) {
        let end = clock.now + .seconds(seconds)
        // As its thread reckons.
        while end - work.deadline >= .zero {
            clock.now = max(clock.now, work.deadline)
            work.step()
        }
        clock.now = end
    }

    /// Complete files of both sides.
    private func leave(_ names: String..., on day: String = "2026-11-23") throws {
        for name in names {
            for track in RecordedFile.tracks {
                try folder.leave("\(name).\(track).opus", [1, 2, 3], in: day)
            }
        }
    }

    private func uploaded(_ line: String, on day: String = "2026-11-23") throws -> UploadedFile {
        try #require(UploadedFile(line, on: day))
    }

    // MARK: What a deletion reaches

    @Test func allPartsOfASessionAreDeletedAndNoOther() throws {
        try leave("sess_1", "sess_10", "sess_1x", on: "2026-11-23")
        try leave("sess_1-184512", on: "2026-11-24")
        let place = try place()
        let work = work(place)
        run(work)
        #expect(server.places.count == 8 && place.files().isEmpty && place.heldBytes == 0)
        #expect(try place.erase(["sess_1"]) == 4)
        work.look()
        run(work)
        #expect(
            server.requests.suffix(4) == [
                "DELETE 2026-11-23/sess_1.agent.opus", "DELETE 2026-11-23/sess_1.user.opus",
                "DELETE 2026-11-24/sess_1-184512.agent.opus",
                "DELETE 2026-11-24/sess_1-184512.user.opus",
            ])
        #expect(server.places.allSatisfy { $0.contains("sess_10.") || $0.contains("sess_1x.") })
        #expect(place.notedErasures().isEmpty)
        #expect(work.counts.uploads == 8 && work.counts.erasures == 4)
        #expect(work.counts.pendingErasures == 0 && work.counts.failedErasures == 0)
        // Once more: the lists have the names, and the server has answered.
        #expect(try place.erase(["sess_1"]) == 4)
        work.look()
        run(work)
        #expect(server.places.count == 4 && place.notedErasures().isEmpty)
    }

    @Test func aFileThatWasNeverSentNeedsNoRequest() throws {
        let place = try place()
        let work = work(place)
        try leave("sess_1")
        work.add(try uploaded("sess_1.user"))
        #expect(try place.erase(["sess_1"]) == 0)
        run(work)
        #expect(server.requests.isEmpty && work.counts.pendingUploads == 0)
        #expect(folder.places == ["2026-11-23"])
    }

    /// The answer to a request may be lost, so that the server has the file.
    @Test func anAttemptThatFailedCountsAsSent() throws {
        try leave("sess_1")
        let place = try place()
        let work = work(place)
        server.isAway = true
        run(work, forSeconds: 10)
        #expect(work.counts.failedUploads == 4 && work.counts.pendingUploads == 2)
        server.places = ["2026-11-23/sess_1.user.opus"]
        #expect(try place.erase(["sess_1"]) == 2)
        server.isAway = false
        run(work, forSeconds: 60)
        #expect(server.places.isEmpty && work.counts.erasures == 2)
        #expect(work.counts.pendingUploads == 0 && work.counts.uploads == 0)
    }

    @Test func theNameIsListedBeforeTheFileIsSent() throws {
        try leave("sess_1")
        let path = folder.path
        server.whilePutting = { place in
            let listed = try UploadList(of: "2026-11-23", in: path).files(of: ["sess_1"])
            #expect(listed.contains { $0.place == place })
        }
        run(work(try place()))
        #expect(server.requests.count == 2)
    }

    @Test func aFileThatIsBeingSentIsDeletedThen() throws {
        try leave("sess_1")
        let place = try place()
        let work = work(place)
        server.whilePutting = { _ in try place.erase(["sess_1"]) }
        run(work, forSeconds: 5)
        #expect(
            server.requests == [
                "PUT 2026-11-23/sess_1.agent.opus", "DELETE 2026-11-23/sess_1.agent.opus",
            ])
        #expect(server.places.isEmpty && place.notedErasures().isEmpty)
    }

    /// Two servers are on one folder while one takes over from the other.
    @Test func aFileThatAnotherProcessDeletesTooEarlyIsDeletedAgain() throws {
        try leave("sess_1")
        let place = try place()
        let work = work(place)
        server.whilePutting = { [server] _ in
            server.whilePutting = { _ in }
            try place.erase(["sess_1"])
            let other = self.work(place)
            for _ in 0..<4 { other.step() }
            #expect(place.notedErasures().isEmpty)
        }
        run(work, forSeconds: 5)
        #expect(server.places.isEmpty && place.notedErasures().isEmpty)
        #expect(server.requests.last == "DELETE 2026-11-23/sess_1.agent.opus")
    }

    // MARK: Failures and restarts

    @Test func deletionsWaitForAServerThatIsAwayAcrossRestarts() throws {
        try leave("sess_1")
        let place = try place()
        run(work(place))
        server.isAway = true
        #expect(try place.erase(["sess_1"]) == 2)
        server.times = []
        let first = work(place)
        #expect(first.counts.pendingErasures == 2)
        run(first, forSeconds: 300)
        let seconds = server.times.map { ($0 - server.times[0]).wholeMilliseconds / 1_000 }
        #expect(seconds == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243])
        #expect(first.counts.failedErasures == 10 && first.counts.pendingErasures == 2)
        server.isAway = false
        let next = work(place)
        run(next)
        #expect(server.places.isEmpty && place.notedErasures().isEmpty)
        #expect(next.counts.erasures == 2)
    }

    /// A key that may put and not delete.
    @Test func deletionsThatAreRefusedHoldUpNoUpload() throws {
        try leave("sess_1")
        let place = try place()
        let work = work(place)
        run(work)
        server.refusesDeletions = true
        try place.erase(["sess_1"])
        run(work, forSeconds: 600)
        for number in 2..<100 { try leave("sess_\(number)") }
        let begin = clock.now
        for number in 2..<100 {
            for track in RecordedFile.tracks { work.add(try uploaded("sess_\(number).\(track)")) }
        }
        run(work, forSeconds: 120)
        let puts = zip(server.requests, server.times).filter {
            $0.0.hasPrefix("PUT") && $0.1 >= begin
        }
        #expect(puts.count == 196 && puts.allSatisfy { $0.1 == begin })
        #expect(work.counts.pendingErasures == 2 && work.counts.pendingUploads == 0)
    }

    @Test func uploadsAndDeletionsTakeTurns() throws {
        try leave("sess_1", "sess_2", "sess_3")
        let place = try place()
        try place.noteErasures(of: [uploaded("sess_8.user"), uploaded("sess_9.user")])
        run(work(place))
        let methods = server.requests.map { $0.prefix { $0 != " " } }
        #expect(methods == ["DELETE", "PUT", "DELETE", "PUT", "PUT", "PUT", "PUT", "PUT"])
    }

    @Test func theNotesOfAnotherProcessAreSeenSoon() throws {
        let place = try place()
        let work = work(place)
        server.places = ["2026-11-23/sess_1.user.opus"]
        run(work, forSeconds: 60)
        #expect(server.requests.isEmpty)
        try place.noteErasures(of: [uploaded("sess_1.user")])
        run(work, forSeconds: 2)
        #expect(server.places.isEmpty && place.notedErasures().isEmpty)
        // Other files in the folder of notes are none.
        try folder.leave("readme.txt", [1], in: "erase")
        try folder.leave("2026-11-23.sess_1.guest", [1], in: "erase")
        run(work, forSeconds: 10)
        #expect(server.requests.count == 1 && work.counts.pendingErasures == 0)
    }

    @Test func aNoteThatTheOperatorRemovesIsGivenUp() throws {
        let place = try place()
        try place.noteErasures(of: [uploaded("sess_1.user")])
        let work = work(place)
        server.isAway = true
        run(work)
        place.removeNote(of: try uploaded("sess_1.user"))
        server.isAway = false
        run(work, forSeconds: 60)
        #expect(work.counts.pendingErasures == 0 && work.counts.erasures == 0)
        #expect(server.requests.allSatisfy { $0.hasPrefix("DELETE") } && server.requests.count == 2)
    }

    // MARK: Lists

    /// A full disk must not keep files from being sent, which makes room.
    @Test func aFileThatCannotBeListedIsSent() throws {
        try leave("sess_1")
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/2026-11-23/uploaded", withIntermediateDirectories: true)
        let place = try place()
        let work = work(place)
        run(work)
        #expect(work.counts.uploads == 2 && place.files().isEmpty)
        #expect(throws: RecordingFolderError.self) { try place.erase(["sess_1"]) }
        #expect(place.notedErasures().isEmpty)
    }

    @Test func aListIsReadBehindWhatIsNoName() throws {
        var content = Array("\nsess_1.us\nsess_1.user".utf8)
        content += [UInt8](repeating: 0, count: 300_000)
        content += Array("\nsess_1.agent\nsess_1-2.user.opus\nsess_1/../x.user\n\nsess_1".utf8)
        try folder.leave("uploaded", content)
        let list = UploadList(of: "2026-11-23", in: folder.path)
        #expect(Set(try list.files(of: ["sess_1"]).map(\.line)) == ["sess_1.agent"])
        #expect(try list.append(uploaded("sess_1-3.user")))
        #expect(
            Set(try list.files(of: ["sess_1"]).map(\.line)) == ["sess_1.agent", "sess_1-3.user"])
    }

    /// Lines lie across the blocks in which the list is read.
    @Test func eachNameOfALongListIsFound() throws {
        let names = (0..<40_000).map { "sess_\($0 % 10_000)-\($0 / 10_000).user" }
        try folder.leave("uploaded", Array(names.map { "\n\($0)" }.joined().utf8))
        let list = UploadList(of: "2026-11-23", in: folder.path)
        let wanted = stride(from: 0, to: 10_000, by: 500).map { "sess_\($0)" }
        #expect(try list.files(of: Set(wanted)).count == 80)
        #expect(try list.files(of: ["sess_9999"]).count == 4)
        #expect(try list.files(of: ["sess_10000", "sess"]).isEmpty)
    }
}
