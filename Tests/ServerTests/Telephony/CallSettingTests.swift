// What an application says with a call: settings of its session, a greeting, keys as turns; and what
// is known of the call elsewhere.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct CallSettingTests {
    private func parameters(_ parameters: String) throws -> SessionParameters? {
        let world = try CallWorld()
        _ = SimulatedCarrier(world.server, .twilio(parameters))
        return world.session?.parameters
    }

    @Test func parametersAreSettingsOfTheSession() throws {
        let settings = try #require(
            try parameters(
                #"{"model":"large","voice":"ash","instructions":"Be brief.","speed":"1.25","#
                    + #""language":"de","max_output_tokens":"100","tools":"[{\"type\":\"function\","#
                    + #"\"name\":\"f\"}]","turn_detection":"{\"type\":\"semantic_vad\"}","#
                    + #""customer":"7"}"#))
        #expect(settings.model == "large")
        #expect(settings.voice == "ash")
        #expect(settings.instructions == "Be brief.")
        #expect(settings.speed == 1.25)
        #expect(settings.transcription?.language == "de")
        #expect(settings.maxOutputTokens == 100)
        #expect(settings.tools.map(\.name) == ["f"])
        #expect(settings.turnDetection?.mode == .semanticVAD(eagerness: .auto))
    }

    @Test func theFormatIsTheLines() throws {
        let settings = try #require(
            try parameters(
                #"{"session":"{\"type\":\"realtime\",\"instructions\":\"x\",\"audio\":{\"output\":"#
                    + #"{\"format\":{\"type\":\"audio/pcm\",\"rate\":24000}}}}"}"#))
        #expect(settings.instructions == "x")
        #expect(settings.inputFormat == .pcmu)
        #expect(settings.outputFormat == .pcmu)
        #expect(settings.outputTransport == .binary)
    }

    @Test(arguments: [
        #"{"speed":"9"}"#, #"{"speed":"fast"}"#, #"{"tools":"["}"#,
        #"{"turn_detection":"null},\"instructions\":{\"a\":1"}"#, #"{"session":"7"}"#,
        #"{"session":"{\"type\":\"transcription\"}"}"#,
    ])
    func aBadParameterEndsTheCall(bad: String) throws {
        let log = LogRecord()
        let world = try CallWorld(log: log)
        let line = SimulatedCarrier(world.server, .twilio(bad))
        #expect(line.client.closeCode == 1008)
        // The carrier gets no message of another protocol.
        #expect(line.client.texts.isEmpty)
        #expect(world.server.metrics.total(of: .callsRefused) == 1)
        #expect(world.server.metrics.total(of: .sessionsStarted) == 0)
        #expect(world.server.metrics.sessions.load(ordering: .relaxed) == 0)
    }

    @Test func aKeyOpensItsModelsOnly() throws {
        let key = "sk-telephone-0123456789abcdef"
        for (model, code) in [("small", nil), ("large", 1008)] as [(String, UInt16?)] {
            let world = try CallWorld(keys: "\(key) models=parley,small\n")
            let line = SimulatedCarrier(
                world.server, .twilio(#"{"model":"\#(model)"}"#),
                fields: [("Authorization", "Bearer \(key)")])
            #expect(line.client.closeCode == code)
        }
    }

    @Test func theAgentSpeaksFirstWhereItIsToldTo() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(
            world.server, .twilio(#"{"greeting":"Greet the caller.","from":"+1555"}"#))
        line.say([], silence: 6_000)
        #expect(world.agent.requests.map(\.instructions) == ["Greet the caller."])
        #expect(line.played.count == 8 * 60 * CallAgent.reply.count)
        let call = try #require(world.agent.requests.first?.turn?.call)
        #expect(call.carrier == .twilio)
        #expect(call.callID == "CA1")
        #expect(call.from == "+1555")
    }

    @Test(arguments: [
        (#"{"recording":"{\"consent\":true}"}"#, true),
        (#"{"session":"{\"type\":\"realtime\",\"recording\":{\"consent\":true}}"}"#, true),
        (#"{"recording":"{\"consent\":false}"}"#, false), (#"{}"#, false),
    ])
    func theCallerMayAgreeToARecording(parameters: String, isRecorded: Bool) throws {
        let world = try CallWorld(recordings: RecordingsForNobody()) { $0.recordings.rule = .asked }
        _ = SimulatedCarrier(world.server, .twilio(parameters))
        #expect(try #require(world.session).isRecorded == isRecorded)
    }

    @Test func keysAreEventsOfTheQuota() throws {
        let key = "sk-telephone-0123456789abcdef"
        let world = try CallWorld(keys: "\(key) quotas=events=60/minute\n")
        let line = SimulatedCarrier(
            world.server, .twilio(#"{"dtmf":"item"}"#),
            fields: [("Authorization", "Bearer \(key)")])
        press(String(repeating: "1", count: 100), on: line)
        let digits = world.server.metrics.total(of: .callDigits)
        #expect(digits >= 60 && digits < 100)
        #expect(world.server.metrics.total(of: .quotaRefusedEvents) == 100 - digits)
        #expect(line.client.closeCode == nil)
    }

    // MARK: Keys

    private func press(_ digits: String, on line: SimulatedCarrier) {
        for digit in digits {
            line.client.send(
                #"{"event":"dtmf","streamSid":"MZ1","dtmf":{"track":"inbound_track","#
                    + #""digit":"\#(digit)"}}"#)
            line.say([], silence: 100)
        }
    }

    @Test(arguments: [("12#", 200, "12#"), ("907", 2_200, "907")])
    func keysBecomeATurn(digits: String, silence: Int, keys: String) throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server, .twilio(#"{"dtmf":"item"}"#))
        press(digits, on: line)
        line.say([], silence: silence)
        #expect(world.agent.requests.map(\.messages) == [[.user("Keys pressed: \(keys)")]])
        #expect(world.server.metrics.total(of: .callDigits) == digits.count)
    }

    @Test func keysInterruptTheReply() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(
            world.server, .twilio(#"{"dtmf":"item","greeting":"Greet."}"#))
        line.say([], silence: 1_500)
        press("#", on: line)
        #expect(line.cleared.count == 1)
        line.say([], silence: 500)
        let request = try #require(world.agent.requests.last)
        #expect(request.messages.last == .user("Keys pressed: #"))
        let shown = try #require(world.shownReply)
        #expect(CallAgent.reply.hasPrefix(shown) && shown.count < CallAgent.reply.count)
    }

    @Test func withoutTheParameterKeysAreNoTurn() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server)
        press("12#", on: line)
        line.say([], silence: 3_000)
        #expect(world.agent.requests.isEmpty)
        #expect(world.server.metrics.total(of: .callDigits) == 3)
    }

    @Test func aSidebandSeesKeysAndIsTheCallsOther() throws {
        let key = "sk-telephone-0123456789abcdef"
        let world = try CallWorld(keys: "\(key)\n")
        let line = SimulatedCarrier(
            world.server, fields: [("Authorization", "Bearer \(key)")])
        let id = try #require(world.session?.id)
        let sideband = world.server.openClient("/v1/realtime?call_id=\(id)", key: key)
        #expect(world.server.run())
        try #require(sideband.isOpen)
        press("5", on: line)
        #expect(sideband.texts.last?.hasSuffix(#","digit":"5"}"#) == true)
        #expect(sideband.eventTypes.last == "parley.dtmf.received")
    }

    /// A library sends its whole session with an update. The line keeps its own format.
    @Test func aSidebandDoesNotChangeTheLinesFormat() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server)
        let id = try #require(world.session?.id)
        let sideband = world.server.openClient("/v1/realtime?call_id=\(id)")
        #expect(world.server.run())
        sideband.send(
            #"{"type":"session.update","session":{"type":"realtime","instructions":"Be brief.","#
                + #""output_modalities":["text"],"audio":{"input":{"format":{"type":"audio/pcm","#
                + #""rate":24000}},"output":{"format":{"type":"audio/pcm","rate":24000}}}}}"#)
        sideband.send(
            #"{"type":"response.create","response":{"audio":{"output":{"format":{"#
                + #""type":"audio/pcm","rate":24000}}}}}"#)
        line.say([], silence: 6_000)
        #expect(!sideband.eventTypes.contains("error"))
        #expect(world.session?.parameters.instructions == "Be brief.")
        #expect(world.session?.parameters.inputFormat == .pcmu)
        #expect(line.played.count == 8 * 60 * CallAgent.reply.count)
    }

    /// Where the operator wants contents in the log, those of calls are there.
    @Test func theLogHasWhatWasSaid() throws {
        let log = LogRecord()
        let world = try CallWorld(log: log) { $0.log.includesContent = true }
        let line = SimulatedCarrier(world.server, .twilio(#"{"greeting":"Greet."}"#))
        line.say([], silence: 6_000)
        #expect(log.lines.contains { $0.contains(CallAgent.reply) })
    }

    @Test func anOperatorSeesTheCall() throws {
        let world = try CallWorld([.telnyx])
        _ = SimulatedCarrier(world.server, .telnyx, path: "/telnyx")
        let peer = world.server.connect()
        peer.send("GET /admin/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(world.server.run(for: .seconds(2)))
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        let body = text(try #require(responses.first))
        #expect(
            body.contains(
                #""call":{"carrier":"telnyx","call_id":"v2:1","from":"+1","to":"+2"}"#))
    }
}

/// Keeps nothing.
private struct RecordingsForNobody: RecordingKeeper {
    func keep(_ chunk: RecordingChunk) {}
    var counts: RecordingCounts { RecordingCounts() }
    func shutdown() {}
}
