// Fields that the protocol does not have: which are refused, and what the client is told.

import Codec
import TestMaterial
import Testing

@Suite struct UnknownFieldTests {
    struct Slip: Sendable, CustomTestStringConvertible {
        let session: String
        let param: String
        let hint: String
        var testDescription: String { session }
    }

    static let slips: [Slip] = [
        Slip(
            session: #""turn_detection":null"#, param: "session.turn_detection",
            hint: "The field belongs at 'session.audio.input.turn_detection'."),
        Slip(
            session: #""voice":"echo""#, param: "session.voice",
            hint: "The field belongs at 'session.audio.output.voice'."),
        Slip(
            session: #""modalities":["text"]"#, param: "session.modalities",
            hint: "Did you mean 'output_modalities'?"),
        Slip(
            session: #""audio":{"input":{"turn_detection":{"type":"server_vad","#
                + #""silence_duration":900}}}"#,
            param: "session.audio.input.turn_detection.silence_duration",
            hint: "Did you mean 'silence_duration_ms'?"),
        Slip(
            session: #""audio":{"inputs":{}}"#, param: "session.audio.inputs",
            hint: "Did you mean 'input'?"),
        Slip(
            session: #""tools":[{"type":"function","name":"f","params":{}}]"#,
            param: "session.tools[0].params", hint: "Known parameters there are "),
        Slip(
            session: #""temperature":0.8"#, param: "session.temperature",
            hint: "Known parameters there are "),
    ]

    @Test(arguments: slips)
    func aSlipInASessionIsNamed(_ slip: Slip) throws {
        let text =
            #"{"type":"session.update","event_id":"e","session":{"type":"realtime",\#(slip.session)}}"#
        let error = #expect(throws: ClientEventError.self) {
            try ClientEventParserTests.parsed(text)
        }
        #expect(error?.code == "unknown_parameter" && error?.param == slip.param)
        #expect(error?.eventID == "e")
        #expect(
            error?.message.hasPrefix("Unknown parameter: '\(slip.param)'. \(slip.hint)") == true)
        // A server may be told to ignore it, as it may be in the beta.
        var lenient = ClientEventParser()
        lenient.refusesUnknownFields = false
        _ = try lenient.parse(text)
    }

    @Test(arguments: [
        (#"{"type":"response.create","instructions":"be brief"}"#, "instructions"),
        (#"{"type":"response.create","response":{"modality":"text"}}"#, "response.modality"),
        (#"{"type":"response.cancel","id":"r"}"#, "id"),
        (#"{"type":"conversation.item.delete","item_id":"i","why":1}"#, "why"),
    ])
    func otherEventsAreCheckedToo(text: String, param: String) {
        let error = #expect(throws: ClientEventError.self) {
            try ClientEventParserTests.parsed(text)
        }
        #expect(error?.code == "unknown_parameter" && error?.param == param)
    }

    /// What servers have written comes back: items whole, and a session with its id. What tools take
    /// is their own business.
    @Test(arguments: [
        #"{"type":"session.update","session":{"type":"realtime","id":"s","object":"realtime.session"}}"#,
        #"{"type":"session.update","session":{"tools":[{"type":"function","name":"f","#
            + #""parameters":{"type":"object","any":{"thing":1}}}]}}"#,
        #"{"type":"response.create","response":{"metadata":{"mine":"1"}}}"#,
        #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
            + #""object":"realtime.item","content":[{"type":"input_text","text":"","x":1}]}}"#,
        #"{"type":"response.create","response":{"input":[{"type":"message","role":"user","#
            + #""object":"realtime.item","content":[]}]}}"#,
        #"{"type":"input_audio_buffer.append","audio":"","number":7}"#,
        #"{"type":"session.update","session":{"audio":{"input":{"turn_detection":{"#
            + #""type":"semantic_vad","threshold":0.5}}}}}"#,
    ])
    func whatIsNotCheckedIsAccepted(text: String) throws {
        _ = try ClientEventParserTests.parsed(text)
    }

    @Test func theBetaIgnoresWhatItDoesNotKnow() throws {
        var parser = ClientEventParser()
        let text = Array(#"{"type":"session.update","session":{"voices":"echo"}}"#.utf8)
        _ = try text.withUnsafeBytes { bytes throws in try parser.parse(bytes, in: .beta) }
    }

    @Test func aRequestForAClientSecretIsCheckedLikewise() throws {
        let body = Array(#"{"session":{"type":"realtime","turn_detection":null}}"#.utf8)
        let error = #expect(throws: ClientEventError.self) { try ClientSecretRequest(body: body) }
        #expect(error?.param == "session.turn_detection")
        _ = try ClientSecretRequest(body: body, refusesUnknownFields: false)
    }
}
