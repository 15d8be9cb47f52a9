// Audio of one event that is longer than its session takes: refused by its length, before it is decoded.

import Testing

@testable import Codec

@Suite struct AudioLimitTests {
    private let limit = AudioLimit(maxBytes: 6, maxSeconds: 60)

    private func refusal(_ text: String) -> ClientEventError? {
        var events = ClientEventParser()
        do throws(ClientEventError) {
            let outcome = Array(text.utf8).withUnsafeBytes { bytes in
                Result { () throws(ClientEventError) in
                    try events.parse(bytes, audioWithin: limit).event
                }
            }
            _ = try outcome.get()
            return nil
        } catch {
            return error
        }
    }

    private func part(_ audio: String) -> String {
        #"{"type":"message","role":"user","content":[{"type":"input_audio","audio":"\#(audio)"}]}"#
    }

    /// The last text is no base64: it was not read.
    @Test(arguments: [("AAAAAAAA", false), ("AAAAAAAAAA==", true), ("AAAAAAAA***=", true)])
    func theLengthDecides(audio: String, isRefused: Bool) {
        let appended = refusal(
            #"{"type":"input_audio_buffer.append","event_id":"e","audio":"\#(audio)"}"#)
        #expect(appended?.code == (isRefused ? "input_audio_buffer_full" : nil))
        #expect(appended?.eventID == (isRefused ? "e" : nil))
        let code = isRefused ? "audio_too_long" : nil
        let created = #"{"type":"conversation.item.create","item":\#(part(audio))}"#
        #expect(refusal(created)?.code == code)
        let response = #"{"type":"response.create","response":{"input":[\#(part(audio))]}}"#
        #expect(refusal(response)?.code == code)
    }

    @Test(arguments: [
        #"{"type":"conversation.item.create","item":5}"#,
        #"{"type":"conversation.item.create","item":{"content":[{"audio":7},3]}}"#,
        #"{"type":"response.create","response":{"input":{"content":[]}}}"#, #"{"item":[]}"#,
    ])
    func whatIsNoAudioIsRefusedAsBefore(text: String) {
        #expect(["invalid_type", "missing_required_parameter"].contains(refusal(text)?.code))
    }
}
