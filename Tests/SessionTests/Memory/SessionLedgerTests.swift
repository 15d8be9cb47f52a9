// What a session's ledger says, and what its objects really take.

import CLinux
import Codec
import Glibc
import TestMaterial
import Testing

@testable import Session

/// Bytes of an object's block, the allocator's header included. The allocator gives up to 16 bytes
/// more, where the remainder is too small for a block.
private func block(of object: AnyObject) -> Int {
    Int(malloc_usable_size(Unmanaged.passUnretained(object).toOpaque())) + 8
}

@Suite struct SessionLedgerTests {
    @Test func objectsAreAsLargeAsTheyAreSaidToBe() throws {
        let script = ScriptedSession(voiceActivity: .installed)
        let parameters = script.session.parameters
        let speechInput = SpeechInput(parameters: parameters, context: script.context)
        let decoder = try InputAudioDecoder(format: .pcm)
        let playout = PlayoutTimeline(lead: .milliseconds(500), keepsAudio: true)
        let opus = script.context.codecs.settings.resolved(OpusSettings())
        let encoder = OutputAudioEncoder(format: .opus, settings: opus)
        let request = ModelRequest(model: "m", messages: [])
        let reply = SpeculativeReply(responseID: "resp_1", request: request, speechEnd: 0)
        let response = self.response(playout, script.session)
        let sizes: [(AnyObject, Int)] = [
            (script.session, VoiceSession.objectBytes), (speechInput, SpeechInput.objectBytes),
            (decoder, InputAudioDecoder.objectBytes),
            (encoder, OutputAudioEncoder.objectBytes), (playout, PlayoutTimeline.objectBytes),
            (EchoCheck(lead: .milliseconds(500)), EchoCheck.objectBytes),
            (SessionTools(core: script.session), SessionTools.objectBytes),
            (response, Response.objectBytes),
            (SettledParameters(parameters), SettledParameters.objectBytes),
            (reply, SpeculativeReply.objectBytes),
            (ReplyPlayback(core: script.session), ReplyPlayback.objectBytes),
        ]
        for (object, bytes) in sizes {
            #expect((0...16).contains(block(of: object) - bytes), "\(type(of: object))")
        }
    }

    /// The one object of an idle session. Where it grows, an idle session costs more: change the
    /// figure here, run `make bench-memory` and put its result into LoadTests/RESULTS.md.
    @Test func theObjectOfAnIdleSessionKeepsWithinItsBudget() {
        #expect(VoiceSession.objectBytes == 256)
    }

    private func response(_ playout: PlayoutTimeline, _ session: VoiceSession) -> Response {
        let description = ResponseDescription(
            id: "resp_1", conversationID: nil, outputModality: .text, outputFormat: .pcm,
            voice: "marin")
        let sender = SpeechSender(
            of: description, language: .english, playout: playout, speechEnd: nil,
            context: session.context)
        let clauses = ClauseSpeaker(
            of: description.id, voice: SpeechRequest(text: "", voice: "marin"), language: .english,
            context: session.context)
        return Response(
            description: description, parameters: ResponseParameters(), clauses: clauses,
            sender: sender, speechEnd: nil, asked: nil, core: session)
    }

    @Test func aLedgerAddsUp() {
        var ledger = MemoryLedger()
        for (index, part) in MemoryPart.allCases.enumerated() { ledger[part] = 1 << index }
        #expect(ledger.total == (1 << MemoryPart.allCases.count) - 1)
        #expect((ledger + ledger).total == 2 * ledger.total)
        #expect(ledger - ledger == MemoryLedger())
        #expect(ledger.inputAudio == ledger[.inputAudio] && ledger.upstream == ledger[.upstream])
    }

    /// Items and what they say, by the allocator's own count, in a process of its own.
    @Test func aConversationTakesWhatItSays() async {
        let run = await #expect(
            processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
            var conversation = Conversation(maxItems: 10_000, maxBytes: 1 << 20)
            let before = Int(mallinfo2().uordblks)
            for index in 0..<1_000 {
                let text = String(repeating: "word ", count: 5 + index % 20) + "\(index)"
                var content = [ContentPart.inputText(text)]
                if index % 3 == 0 { content.append(.inputText(text + "!")) }
                let item = ConversationItem(
                    id: "item_\(10_000 + index)", kind: .message(role: .user, content: content))
                _ = conversation.append(item)
            }
            let grown = Int(mallinfo2().uordblks) - before
            let stated = conversation.heldBytes
            print("a conversation of 1,000 items takes \(grown) bytes, and says \(stated)")
            fflush(nil)
            precondition(abs(stated - grown) * 20 < grown, "\(stated) of \(grown)")
            for index in 0..<1_000 { try? conversation.remove("item_\(10_000 + index)") }
            // The list keeps its room.
            precondition(conversation.heldBytes < 100_000)
        }
        print(String(decoding: run?.standardOutputContent ?? [], as: UTF8.self))
    }

    @Test func aSessionSaysWhatItIsDoing() throws {
        let script = ScriptedSession(voiceActivity: .installed)
        #expect(script.session.state == .idle)
        let silence = [[UInt8]](repeating: [UInt8](repeating: 0, count: 960), count: 10)
        script.speak(silence, from: 0)
        script.run(until: 250)
        #expect(script.session.state == .listening)
        script.speak(try SpeechRecording.sentence.packets(silenceMilliseconds: 0), from: 300)
        var seen: [SessionState] = []
        for time in stride(from: 300, to: 12_000, by: 20) {
            script.run(until: time)
            if seen.last != script.session.state { seen.append(script.session.state) }
        }
        #expect(seen.contains(.speaking))
        #expect(script.session.ledger.total > VoiceSession.objectBytes)
    }

    @Test func settingsAreCountedOnceTheyAreThere() {
        let script = ScriptedSession({ _ in })
        let before = script.session.ledger
        var update = SessionUpdate()
        update.instructions = .value(String(repeating: "x", count: 10_000))
        update.tools = .value([FunctionTool(name: "a", parameters: RawJSON("{}"))])
        script.send(.sessionUpdate(update), at: 0)
        script.run(until: 1)
        let grown = script.session.ledger.session - before.session
        #expect((10_000..<11_000).contains(grown), "\(grown)")
    }

    @Test func sessionsThatAreAlikeShareTheirParameters() {
        let context = ScriptedSession({ _ in }).context
        let sessions = (1...3).map {
            VoiceSession(
                parameters: SessionParameters(model: "m"), context: context, seed: UInt64($0))
        }
        var update = SessionUpdate()
        update.instructions = .value(String(repeating: "x", count: 10_000))
        func send(to session: VoiceSession) {
            session.handle(
                .sessionUpdate(update), eventID: nil, audio: RawSpan(), at: .milliseconds(1))
            while session.nextOutput() != nil {}
        }
        sessions.forEach(send)
        let own = sessions.map { $0.ledger.session - VoiceSession.objectBytes }
        #expect(own[0] > 10_000 && own[1] == 0 && own[2] == 0, "\(own)")
        update.instructions = .value("another")
        send(to: sessions[1])
        #expect(sessions.map(\.parameters.instructions.utf8.count) == [10_000, 7, 10_000])
    }
}
