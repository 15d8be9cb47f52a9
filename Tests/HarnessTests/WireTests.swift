// The load generator's reading of server events, and the scripted model's answers.

import Codec
import Testing

@testable import parley_load

@Suite struct WireTests {
    private let parser = JSONParser()

    private func head(_ text: String) -> ServerEventHead {
        Array(text.utf8).withUnsafeBytes { ServerEventHead($0, parser) }
    }

    @Test func eventsAreRecognisedByTheirType() {
        #expect(head(#"{"type":"session.created","event_id":"e"}"#) == .sessionCreated)
        #expect(head(#"{"type": "session.updated"}"#) == .sessionUpdated)
        #expect(head(#"{"event_id":"e1","type":"response.created"}"#) == .responseCreated)
        #expect(head(#"{"type":"response.created.x"}"#) == .other)
        #expect(
            head(#"{"type":"response.done","response":{"status":"completed"}}"#)
                == .responseCompleted)
        #expect(
            head(#"{"type":"response.done","response":{"status": "cancelled"}}"#)
                == .responseCancelled)
        #expect(
            head(#"{"type":"response.done","response":{"status":"failed"}}"#) == .responseFailed)
        #expect(head(#"{"type":"error","error":{}}"#) == .error)
        #expect(head(#"{"type":"parley.resumed","recovered":true}"#) == .resumed)
        #expect(head(#"{"type":"parley.resume.updated"}"#) == .resumeUpdated)
        #expect(head("{}") == .other)
        #expect(head("") == .other)
    }

    /// The reply's words and its items' states must not be taken for the response's status.
    @Test(arguments: [
        (#"{"output":[{"status":"incomplete","text":"failed"}],"status":"completed"}"#, true),
        (#"{"status":"incomplete","output":[{"status":"completed"}]}"#, false),
        (#"{"output":[{"status":"completed"}]}"#, false),
    ]) func aResponsesStatusIsRead(response: String, isCompleted: Bool) {
        let event = #"{"type":"response.done","response":\#(response)}"#
        #expect(head(event) == (isCompleted ? .responseCompleted : .responseFailed))
        #expect(head(String(event.dropLast())) == .responseFailed)
    }

    @Test(
        arguments: [
            (#"{"type":"session.created","event_id":"e","offset":1,"session":{}}"#, 1),
            (#"{"type":"response.done","offset":1234567}"#, 1_234_567),
            (#"{"type":"parley.resumed","session":{}}"#, nil), ("", nil), (#"{"offset":"#, 0),
        ] as [(String, Int?)]) func theNumberOfAnEventIsRead(event: String, offset: Int?)
    {
        let found = Array(event.utf8).withUnsafeBytes { ServerEventHead.offset(of: $0) }
        #expect(found == offset)
    }

    @Test func aPlaceFollowsItsSession() throws {
        func event(_ id: String, epoch: Int, _ more: String) -> String {
            #"{"session":{"id":"\#(id)"},"resume":{"handle":"\#(id).h","epoch":\#(epoch)},\#(more)}"#
        }
        var place = try #require(LoadPlace(try parser.parse(event("s1", epoch: 5, #""offset":1"#))))
        place.offset = 9
        place.renew(try parser.parse(#"{"resume":{"handle":"s1.new","epoch":5}}"#))
        #expect(place.query == "resume=s1.new&epoch=5&offset=9")
        func back(_ id: String, epoch: Int, recovered: Bool) throws -> LoadPlace.Return {
            place.handleReturn(
                try parser.parse(event(id, epoch: epoch, #""recovered":\#(recovered)"#)))
        }
        #expect(try back("s1", epoch: 5, recovered: true) == .recovered)
        #expect(place.query == "resume=s1.h&epoch=5&offset=9")
        #expect(try back("s1", epoch: 6, recovered: false) == .restored)
        #expect(place.query == "resume=s1.h&epoch=6&offset=0")
        #expect(try back("s2", epoch: 7, recovered: false) == .anew)
        #expect(place.query == "resume=s2.h&epoch=7&offset=0")
    }

    /// The send times that the generator finds in a delta's text; nil for any other event.
    private func sendTimes(_ event: String) -> [Int64]? {
        Array(event.utf8).withUnsafeBytes { bytes in
            guard case .textDelta(let start) = ServerEventHead(bytes, parser) else { return nil }
            var times: [Int64] = []
            ServerEventHead.sendTimes(in: bytes, from: start) { times.append($0) }
            return times
        }
    }

    @Test func readsTheSendTimesInDeltas() {
        let event =
            #"{"type": "response.output_text.delta", "delta": " 60174608253192 60174608253999"}"#
        #expect(sendTimes(event) == [60_174_608_253_192, 60_174_608_253_999])
    }

    @Test func numbersInAReplyAreNotSendTimes() {
        let event =
            #"{"type":"response.output_text.delta","delta":"in 2026, 12 99999999999999999999 x"}"#
        #expect(sendTimes(event) == [])
    }

    @Test func aUsersMessageChangesTheScript() {
        let script = ModelScript().overridden(by: "please tokens=500 rate=20.5 first=1000 thanks")
        #expect(
            (script.tokens, script.tokensPerSecond, script.firstTokenMilliseconds)
                == (500, 20.5, 1_000))
        #expect(ModelScript().overridden(by: "tokens=-1 rate=0 first=nan x=5") == ModelScript())
        #expect(script.offset(of: 0) == 1_000_000_000)
        #expect(script.offset(of: 41) == 3_000_000_000)
    }

    @Test func readsARequestWithAnyContent() throws {
        let body = #"""
            {"stream":true,"stream_options":{"include_usage":true},"model":"m","messages":[
            {"role":"user","content":"first"},{"role":"assistant","content":"tokens=9"},
            {"role":"user","content":[{"type":"text","text":"tokens=7"}]}]}
            """#
        let request = try #require(ModelRequest(Array(body.utf8), with: JSONParser()))
        #expect(request.streams && request.wantsUsage)
        #expect((request.lastUserMessage, request.model) == ("tokens=7", "m"))
        #expect(ModelRequest(Array("{}".utf8), with: JSONParser()) == nil)
        #expect(ModelRequest(Array("no".utf8), with: JSONParser()) == nil)
    }

    @Test func theScenariosInstructionsAreTheModelsScript() {
        var scenario = Scenario(.chat)
        (scenario.tokens, scenario.tokenRate, scenario.firstToken) = (500, 12.5, 0.4)
        let script = ModelScript().overridden(by: scenario.chatPrompt)
        #expect(
            (script.tokens, script.tokensPerSecond, script.firstTokenMilliseconds)
                == (500, 12.5, 400))
    }
}
