// What `/v1/realtime` and the paths below it answer: the kind of session that a URL asks for, and
// what the protocol has and this server does not, refused by name.

import Codec
import Simulation
import Testing

@testable import Server

@Suite struct RealtimeRouteTests {
    @Test(arguments: [
        ("/v1/realtime?model=m", "realtime"),
        ("/v1/realtime?intent=transcription", "transcription"),
        ("/v1/realtime?intent=transcription&model=whisper", "transcription"),
        ("/v1/realtime?intent=&model=m", "realtime"),
    ])
    func theIntentChoosesTheKindOfSession(_ target: String, _ type: String) throws {
        let server = try SimulatedServer()
        let client = server.openClient(target)
        #expect(server.run())
        #expect(client.eventTypes == ["session.created"])
        let session = try JSONParser().parse(client.texts.first ?? "")["session"]
        #expect(session?["type"]?.string == type)
        if target.contains("whisper") {
            let transcription = session?["audio"]?["input"]?["transcription"]
            #expect(transcription?["model"]?.string == "whisper")
        }
    }

    @Test(arguments: [
        ("/v1/realtime?call_id=rtc_1", 404, "session_not_found"),
        ("/v1/realtime/calls", 404, "calls_not_supported"),
        ("/v1/realtime/calls/rtc_1/accept", 404, "calls_not_supported"),
        ("/v1/realtime/translations?model=m", 400, "unsupported_session_type"),
        ("/v1/realtime?intent=translation", 400, "unsupported_intent"),
        ("/v1/realtime/callsign", 404, "not_found"),
    ])
    func anUnknownFeatureIsRefusedByName(_ target: String, _ status: Int, _ code: String) throws {
        let server = try SimulatedServer()
        let client = server.openClient(target)
        #expect(server.run())
        let answer = try #require(client.answer)
        #expect(answer.status == status)
        let error = try JSONParser().parse(String(decoding: answer.body, as: UTF8.self))["error"]
        #expect(error?["code"]?.string == code)
        #expect(error?["message"]?.string?.isEmpty == false)
    }
}
