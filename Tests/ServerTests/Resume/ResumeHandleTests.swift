// Handles as texts, and what a client says when it comes back.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

@Suite struct ResumeHandleTests {
    private static let handle = ResumeHandle(
        sessionID: "sess_0123456789", secret: ResumeSecret(Array(0..<16)), shard: 513,
        token: EventToken(.connection, index: 70_000, generation: .max))

    @Test func aHandleIsReadAsItWasWritten() {
        #expect(ResumeHandle(Self.handle.text) == Self.handle)
        #expect(Self.handle.text.utf8.count < ResumeHandle.maxBytes)
    }

    @Test func everySecretIsReadAsItWasWritten() {
        for seed in Seeds.chosen(from: 0..<200) {
            var random = SeededGenerator(seed: seed)
            let bytes = (0..<16).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            #expect(ResumeSecret(bytes).bytes == bytes)
        }
    }

    @Test(
        arguments: [
            "", ".", "sess_1", "sess_1.", "conv_1.AAAA", "sess_1.AAAA", "sess_1.!!!!",
            "sess_" + String(repeating: "a", count: 200) + ".AAAA", handle.text + "A",
            String(handle.text.dropLast()), handle.text + ".AAAA", "\u{0}.\u{0}",
        ])
    func anyOtherTextIsNone(_ text: String) { #expect(ResumeHandle(text) == nil) }

    @Test func onlyTheSameSecretIsEqual() {
        let secret = ResumeSecret(Array(0..<16))
        for index in 0..<16 {
            var other = Array<UInt8>(0..<16)
            other[index] ^= 1
            #expect(ResumeSecret(other) != secret)
        }
    }

    // MARK: The query

    private func query(_ text: String) throws -> ResumeQuery {
        var parser = HTTPRequestParser(limits: HTTPLimits())
        let head = Array("GET /v1/realtime?\(text) HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        let request = try #require(try head.withUnsafeBytes { try parser.parse($0) }).request
        return try ResumeQuery(request)
    }

    @Test func withoutAWordOfItNothingIsAsked() throws {
        #expect(try query("model=m") == .none)
        #expect(try query("model=m&resume=false") == .none)
        #expect(try query("model=m&resume=true") == .ask)
    }

    @Test func aClientSaysWhereItIs() throws {
        let handle = Self.handle
        #expect(
            try query("resume=\(handle.text)")
                == .resume(ResumeClaim(handle: handle, position: nil, played: nil)))
        #expect(
            try query("resume=\(handle.text)&epoch=7&offset=0&item_id=item_1&audio_end_ms=240")
                == .resume(
                    ResumeClaim(
                        handle: handle, position: ResumePosition(epoch: 7, offset: 0),
                        played: PlayedAudio(itemID: "item_1", milliseconds: 240))))
    }

    @Test(
        arguments: [
            ("resume=yes", "resume"), ("resume=", "resume"), ("resume=H&epoch=1", "offset"),
            ("resume=H&offset=1", "epoch"), ("resume=H&epoch=-1&offset=1", "epoch"),
            ("resume=H&epoch=4294967296&offset=1", "epoch"),
            ("resume=H&epoch=1&offset=x", "offset"),
            ("resume=H&epoch=1&offset=99999999999999999999", "offset"),
            ("resume=H&item_id=item_1", "audio_end_ms"), ("resume=H&audio_end_ms=1", "item_id"),
            ("resume=H&item_id=a&audio_end_ms=1.5", "audio_end_ms"),
        ])
    func whatIsMalformedIsNamed(_ text: String, _ param: String) {
        let full = text.replacing("resume=H", with: "resume=\(Self.handle.text)")
        let error = #expect(throws: ClientEventError.self) { try query(full) }
        #expect(error?.param == param)
    }
}
