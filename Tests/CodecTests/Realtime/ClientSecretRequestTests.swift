// The body of POST /v1/realtime/client_secrets and the answer to it.

import Testing

@testable import Codec

@Suite struct ClientSecretRequestTests {
    private func read(_ body: String) throws(ClientEventError) -> ClientSecretRequest {
        try ClientSecretRequest(body: Array(body.utf8))
    }

    @Test(arguments: [
        "", "{}", #"{"session":null,"expires_after":null}"#, #"{"expires_after":{}}"#,
    ])
    func whatIsLeftOutHasTheProtocolsDefault(body: String) throws {
        let request = try read(body)
        #expect(request.seconds == 600)
        #expect(request.model == nil)
        #expect(request.session == SessionUpdate())
    }

    @Test func aSessionIsParsedLikeASessionUpdate() throws {
        let request = try read(
            #"{"expires_after":{"anchor":"created_at","seconds":10},"session":{"type":"realtime","#
                + #""model":"m","instructions":"Be brief.","audio":{"output":{"voice":"cedar"}}}}"#)
        #expect(request.seconds == 10)
        #expect(request.model == "m")
        #expect(request.session.instructions == .value("Be brief."))
        #expect(request.session.voice == .value("cedar"))
    }

    @Test(arguments: [
        (#"{"expires_after":{"seconds":9}}"#, "invalid_value", "expires_after.seconds"),
        (#"{"expires_after":{"seconds":7201}}"#, "invalid_value", "expires_after.seconds"),
        (#"{"expires_after":{"seconds":"60"}}"#, "invalid_type", "expires_after.seconds"),
        (#"{"expires_after":{"anchor":"now"}}"#, "invalid_value", "expires_after.anchor"),
        (#"{"expires_after":60}"#, "invalid_type", "expires_after"),
        (#"{"session":{"type":"translation"}}"#, "unsupported_session_type", "session.type"),
        (
            #"{"session":{"type":"realtime","instructions":1}}"#, "invalid_type",
            "session.instructions"
        ), (#"{"session":{"type":"realtime","model":1}}"#, "invalid_type", "session.model"),
        ("[]", "invalid_type", nil), ("{", "invalid_json", nil), ("nonsense", "invalid_json", nil),
    ])
    func whatIsWrongIsNamed(body: String, code: String, param: String?) throws {
        let error = #expect(throws: ClientEventError.self) { try read(body) }
        #expect(error?.code == code)
        #expect(error?.param == param)
    }

    @Test func theAnswerHasTheSecretAndTheSession() throws {
        var parameters = SessionParameters(model: "m")
        parameters.instructions = "Say \"hi\"."
        let bytes = ClientSecretAnswer.write(
            value: "ek_1", expiresAt: 1_800_000_000, sessionID: "sess_1", parameters)
        let root = try JSONParser().parse(bytes)
        #expect(root["value"]?.string == "ek_1")
        #expect(root["expires_at"]?.int == 1_800_000_000)
        let session = try #require(root["session"])
        #expect(session["object"]?.string == "realtime.session")
        #expect(session["type"]?.string == "realtime")
        #expect(session["id"]?.string == "sess_1")
        #expect(session["instructions"]?.string == parameters.instructions)
    }
}
