// The place of a client in its session, fed with a server's events, and the times of its attempts to
// come back.

import Codec
import Testing

@testable import parley

@Suite struct ResumePlaceTests {
    private let parser = JSONParser()

    private func handle(_ json: String, in place: inout ResumePlace) throws -> ResumePlace.Return? {
        let body = try parser.parse(json)
        return place.handle(type: body["type"]?.string ?? "", body: body)
    }

    private func session(_ id: String) -> String { #""session":{"id":"\#(id)"}"# }

    private func resume(_ handle: String, epoch: Int = 7, expiresAt: Int = 1_240) -> String {
        #""resume":{"handle":"\#(handle)","epoch":\#(epoch),"expires_at":\#(expiresAt)}"#
    }

    private func created(_ id: String = "sess_1") -> String {
        #"{"type":"session.created","offset":1,\#(session(id)),\#(resume("h1"))}"#
    }

    private func begun() throws -> ResumePlace {
        var place = ResumePlace()
        #expect(try handle(created(), in: &place) == nil)
        return place
    }

    private func query(_ place: ResumePlace, _ played: ResumePlace.Played? = nil) -> String {
        place.query(played).map { "\($0.name)=\($0.value)" }.joined(separator: "&")
    }

    @Test func withoutAHandleThereIsNoWayBack() throws {
        var place = ResumePlace()
        #expect(!place.isGranted && place.query(nil).isEmpty)
        _ = try handle(#"{"type":"session.created",\#(session("s"))}"#, in: &place)
        #expect(!place.isGranted && place.query(nil).isEmpty)
    }

    @Test func theRequestNamesTheLastEventAndTheAudio() throws {
        var place = try begun()
        #expect(place.isGranted && query(place) == "resume=h1&epoch=7&offset=1")
        _ = try handle(#"{"type":"response.done","offset":12}"#, in: &place)
        _ = try handle(#"{"type":"response.output_audio.delta"}"#, in: &place)
        #expect(
            query(place, .init(itemID: "item_1", milliseconds: 340))
                == "resume=h1&epoch=7&offset=12&item_id=item_1&audio_end_ms=340")
    }

    @Test func aNewHandleReplacesTheOldOne() throws {
        var place = try begun()
        _ = try handle(
            #"{"type":"parley.resume.updated","offset":2,\#(resume("h2"))}"#, in: &place)
        #expect(query(place) == "resume=h2&epoch=7&offset=2")
    }

    @Test func whatWasMissedFollows() throws {
        var place = try begun()
        let back = try handle(
            #"{"type":"parley.resumed","recovered":true,\#(session("sess_1")),\#(resume("h2"))}"#,
            in: &place)
        #expect(back == .recovered && query(place) == "resume=h2&epoch=7&offset=1")
    }

    @Test func afterALossOfEventsTheCountBeginsAnew() throws {
        var place = try begun()
        let answer = #"{"type":"parley.resumed","recovered":false,"#
        let back = try handle(
            answer + #"\#(session("sess_1")),\#(resume("h2", epoch: 8))}"#, in: &place)
        #expect(back == .retold && query(place) == "resume=h2&epoch=8&offset=0")
    }

    @Test func anotherSessionIsANewConversation() throws {
        var place = try begun()
        let answer = #"{"type":"parley.resumed","recovered":false,"#
        let back = try handle(
            answer + #"\#(session("sess_2")),\#(resume("h2", epoch: 8))}"#, in: &place)
        #expect(back == .anew)
        #expect(try handle(created("sess_2"), in: &place) == nil, "it is known by then")
        #expect(place.isGranted)
    }

    @Test func aServerWithoutTheExtensionBeginsANewConversation() throws {
        var place = try begun()
        let back = try handle(#"{"type":"session.created",\#(session("x"))}"#, in: &place)
        #expect(back == .anew && !place.isGranted)
    }

    @Test(arguments: [
        #"{"handle":"h2"}"#, #"{"epoch":8}"#, #"{"handle":5,"epoch":8}"#, "[]", "null", "7",
        #"{"handle":"\#(String(repeating: "h", count: 129))","epoch":8}"#,
    ])
    func aMalformedGrantIsIgnored(grant: String) throws {
        var place = try begun()
        _ = try handle(#"{"type":"session.updated","resume":\#(grant)}"#, in: &place)
        #expect(query(place) == "resume=h1&epoch=7&offset=1")
    }

    @Test(arguments: [
        (1_000, 240.0), (1_230, 30.0), (9_999, 30.0), (-9_000, 3_600.0), (Int.min, 3_600.0),
    ])
    func itTriesForAsLongAsTheHandleIsGood(wallSeconds: Int, patience: Double) throws {
        #expect(try begun().patience(at: wallSeconds) == patience)
    }
}

@Suite struct ReturnAttemptsTests {
    @Test func theBoundsOfThePausesDouble() {
        var attempts = ReturnAttempts(from: 100, patience: 1_000)
        let pauses = (0..<7).map { _ in attempts.nextPause(at: 100, random: 0.5) }
        #expect(pauses == [0.25, 0.5, 1, 2, 4, 4, 4])
    }

    @Test func thePausesHaveFullJitter() {
        var attempts = ReturnAttempts(from: 0, patience: 1_000)
        #expect(attempts.nextPause(at: 0, random: 0) == 0)
        #expect(attempts.nextPause(at: 0, random: 0.999) == 0.999)
    }

    @Test func afterThePatienceThereIsNoAttempt() {
        var attempts = ReturnAttempts(from: 50, patience: 10)
        #expect(attempts.nextPause(at: 59.9, random: 0.5) ?? 1 < 0.11, "it ends with the patience")
        #expect(attempts.nextPause(at: 60, random: 0.5) == nil)
    }
}
