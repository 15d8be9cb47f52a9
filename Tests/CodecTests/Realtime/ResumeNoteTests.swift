// What a client that can resume its session is told in events.

import TestMaterial
import Testing

@testable import Codec

@Suite struct ResumeNoteTests {
    private static let grant = ResumeNote.Grant(
        handle: "sess_1.abc", expiresAt: 1_800_000_000, epoch: 7)

    private func written(_ event: ServerEvent, _ note: ResumeNote) -> String {
        var bytes = ByteWriter(capacity: 16)
        ServerEventWriter(sessionID: "sess_AbC")
            .write(event, number: 1, resume: note, into: &bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    @Test func anEventHasItsOffset() {
        let text = written(.inputAudioBufferCleared, ResumeNote(offset: 12))
        #expect(text.hasSuffix(#""event_id":"event_AbC_1","offset":12}"#))
        #expect(RealtimeSchema.shared.violations(inServerEvent: text).isEmpty)
    }

    @Test func anEventOutsideOfTheCountHasNone() {
        #expect(!written(.inputAudioBufferCleared, ResumeNote(offset: nil)).contains("offset"))
    }

    @Test(
        arguments: [
            ServerEvent.sessionCreated(id: "sess_AbC", SessionParameters(model: "m")),
            .sessionUpdated(id: "sess_AbC", SessionParameters(model: "m")),
            .resumed(id: "sess_AbC", SessionParameters(model: "m"), recovered: false),
            .resumeUpdated,
        ])
    func theHandleIsAMemberOfTheEvent(_ event: ServerEvent) throws {
        let text = written(event, ResumeNote(offset: 1, grant: Self.grant))
        #expect(RealtimeSchema.shared.violations(inServerEvent: text).isEmpty, "\(text)")
        let resume = try #require(try JSONParser().parse(text)["resume"])
        #expect(resume["handle"]?.string == "sess_1.abc")
        #expect(resume["expires_at"]?.raw.text == "1800000000")
        #expect(resume["epoch"]?.raw.text == "7")
    }

    @Test func theEndIsAnnouncedWithTheTimeLeft() {
        let event = ServerEvent.goingAway(.sessionLimit, millisecondsLeft: 30_000)
        let text = written(event, ResumeNote(offset: 9))
        #expect(
            text.hasSuffix(
                #""offset":9,"reason":"session_limit","milliseconds_left":30000}"#))
    }

    @Test(arguments: [("true", true), ("false", false)])
    func aSessionUpdateMayAskForIt(_ text: String, _ wish: Bool) throws {
        var parser = ClientEventParser()
        let event = #"{"type":"session.update","session":{"type":"realtime","resume":\#(text)}}"#
        let (parsed, _) = try Array(event.utf8).withUnsafeBytes { try parser.parse($0) }
        guard case .sessionUpdate = parsed else {
            Issue.record("another event")
            return
        }
        #expect(parser.wishes.resume == wish)
    }
}
