// Parley's additions to the format `audio/opus`: packet numbers for the input, settings for the
// output.

import Codec
import Testing

@Suite struct OpusSettingsTests {
    private static func update(input: String = "", output: String = "") throws -> SessionUpdate {
        try SessionUpdateParserTests.parsedUpdate(
            #""audio":{"input":{\#(input)},"output":{\#(output)}}"#)
    }

    private static func refusal(_ audio: String) -> ClientEventError? {
        do throws(ClientEventError) {
            let text = SessionUpdateParserTests.update(#""audio":{\#(audio)}"#)
            _ = try ClientEventParserTests.parsed(text)
            return nil
        } catch {
            return error
        }
    }

    @Test func readsTheSettings() throws {
        let update = try Self.update(
            input: #""format":{"type":"audio/opus","sequence":true}"#,
            output: #""format":{"type":"audio/opus","bitrate":16000,"complexity":3,"dtx":true}"#)
        #expect(update.inputIsNumbered == .value(true))
        #expect(
            update.outputOpus
                == .value(OpusSettings(bitrate: 16_000, complexity: 3, usesDTX: true)))
    }

    @Test func aFormatWithoutThemSwitchesThemOff() throws {
        let update = try Self.update(
            input: #""format":{"type":"audio/opus"}"#, output: #""format":{"type":"audio/pcm"}"#)
        #expect(update.inputIsNumbered == .value(false))
        #expect(update.outputOpus == .value(OpusSettings()))
        let other = try Self.update(output: #""speed":1"#)
        #expect(other.inputIsNumbered == .absent)
        #expect(other.outputOpus == .absent)
    }

    @Test(arguments: [
        #""output":{"format":{"type":"audio/opus","bitrate":5999}}"#,
        #""output":{"format":{"type":"audio/opus","bitrate":128001}}"#,
        #""output":{"format":{"type":"audio/opus","complexity":11}}"#,
        #""output":{"format":{"type":"audio/opus","complexity":-1}}"#,
        #""output":{"format":{"type":"audio/opus","dtx":1}}"#,
        #""output":{"format":{"type":"audio/pcm","bitrate":24000}}"#,
        #""input":{"format":{"type":"audio/opus","sequence":"yes"}}"#,
        #""input":{"format":{"type":"audio/pcm","sequence":true}}"#,
    ])
    func refusesWhatIsWrong(audio: String) throws {
        let error = try #require(Self.refusal(audio))
        #expect(error.param?.hasPrefix("session.audio.") == true)
        #expect(["invalid_value", "invalid_type"].contains(error.code))
    }

    @Test func anAppendMayCarryItsNumber() throws {
        #expect(
            try ClientEventParserTests.parsed(
                #"{"type":"input_audio_buffer.append","audio":"AAAA","sequence":65535}"#)
                == .inputAudioBufferAppend(sequence: 65_535))
        for number in ["65536", "-1", "1.5", "\"1\""] {
            #expect(throws: ClientEventError.self) {
                try ClientEventParserTests.parsed(
                    #"{"type":"input_audio_buffer.append","audio":"AAAA","sequence":\#(number)}"#)
            }
        }
    }

    @Test func theSessionReportsOnlyTheSettingsThatWereSet() {
        var parameters = SessionParameters(model: "demo")
        parameters.inputFormat = .opus
        parameters.outputFormat = .opus
        let plain = ServerEventWriterTests.written(.sessionUpdated(id: "sess_1", parameters))
        #expect(plain.contains(#""format":{"type":"audio/opus"}"#))
        #expect(!plain.contains("sequence") && !plain.contains("bitrate"))
        parameters.inputIsNumbered = true
        parameters.outputOpus = OpusSettings(bitrate: 16_000, usesDTX: false)
        let set = ServerEventWriterTests.written(.sessionUpdated(id: "sess_1", parameters))
        #expect(set.contains(#""format":{"type":"audio/opus","sequence":true}"#))
        #expect(set.contains(#""format":{"type":"audio/opus","bitrate":16000,"dtx":false}"#))
    }
}
