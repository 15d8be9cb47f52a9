// Calls of ConversationRelay: the carrier recognises and speaks, the session gets and gives words.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

@Suite struct ConversationRelayTests {
    private static let setup =
        #"{"type":"setup","sessionId":"VX1","accountSid":"AC1","parentCallSid":"","callSid":"CA1","#
        + #""from":"+15550100","to":"+15550101","forwardedFrom":"","callType":"PSTN","#
        + #""callerName":"","direction":"inbound","callStatus":"RINGING","customParameters":"#

    private func begin(
        _ world: CallWorld, parameters: String = "{}"
    ) throws -> SimulatedClient {
        let client = world.server.openClient("/conversation-relay", subprotocols: [])
        client.send(Self.setup + parameters + "}")
        #expect(world.server.run(for: .seconds(1)))
        return client
    }

    private func prompt(_ words: String, isLast: Bool = true) -> String {
        #"{"type":"prompt","voicePrompt":"\#(words)","lang":"en-US","last":\#(isLast)}"#
    }

    private static let spoken = [
        #"{"type":"text","token":"\#(CallAgent.reply)","last":false}"#,
        #"{"type":"text","token":"","last":true}"#,
    ]

    @Test func aPromptIsAnsweredInText() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world, parameters: #"{"instructions":"Be brief."}"#)
        // Only what is final counts.
        client.send(prompt("how far", isLast: false))
        client.send(prompt("how far did you go"))
        #expect(world.server.run(for: .seconds(1)))
        #expect(client.texts == Self.spoken)
        #expect(world.agent.requests.map(\.messages) == [[.user("how far did you go")]])
        let request = try #require(world.agent.requests.first)
        #expect(request.instructions == "Be brief.")
        #expect(request.turn?.call?.to == "+15550101")
    }

    @Test(arguments: [
        ("I have gone forward", "I have gone forward"),
        ("i have GONE, forward by", "I have gone forward by"),
        // A carrier that reports the last sentence alone, with a word of its own before it.
        ("well: by ten meters and", "I have gone forward by ten meters, and"), ("", ""),
        ("something quite different", CallAgent.reply),
    ])
    func anInterruptedReplyEndsAtTheWordsThatWereHeard(heard: String, shown: String) throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        client.send(prompt("how far did you go"))
        #expect(world.server.run(for: .seconds(1)))
        client.send(
            #"{"type":"interrupt","utteranceUntilInterrupt":"\#(heard)","#
                + #""durationUntilInterruptMs":460}"#)
        client.send(prompt("stop"))
        #expect(world.server.run(for: .seconds(1)))
        let messages = try #require(world.agent.requests.last).messages
        #expect(messages.first == .user("how far did you go"))
        #expect(messages.last == .user("stop"))
        #expect((world.shownReply ?? "") == shown)
    }

    private static let written =
        "**Sure!** We open:\n\n- *Monday*: 9\n- See [our site](https://a.example/h). 👍 Goodbye"

    /// The carrier is sent what a voice says, and the conversation keeps what the model wrote.
    @Test func theCarrierGetsNoMarkdown() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        world.agent.writes(Self.written.deltas(ofScalars: 5))
        client.send(prompt("when do you open"))
        #expect(world.server.run(for: .seconds(1)))
        let said = client.texts.compactMap { text in
            text.split(separator: #""token":""#).dropFirst().first?.prefix { $0 != "\"" }
        }.joined()
        #expect(said == "Sure! We open: Monday: 9. See our site. Goodbye.")
        #expect(client.texts.last?.hasSuffix(#""last":true}"#) == true)
        #expect(client.texts.count { $0.hasSuffix(#""last":true}"#) } == 1)
        client.send(prompt("thank you"))
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.shownReply == Self.written)
    }

    @Test(arguments: [
        ("Sure! We open: Monday", "**Sure!** We open:\n\n- *Monday*:"),
        (
            "Monday: 9. See our site",
            "**Sure!** We open:\n\n- *Monday*: 9\n- See [our site](https://a.example/h)."
        ),
        ("see our site goodbye", Self.written), ("", ""),
    ])
    func whatWasHeardIsFoundInMarkdown(heard: String, shown: String) throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        world.agent.writes([Self.written])
        client.send(prompt("when do you open"))
        #expect(world.server.run(for: .seconds(1)))
        client.send(
            #"{"type":"interrupt","utteranceUntilInterrupt":"\#(heard)","durationUntilInterruptMs":1}"#
        )
        client.send(prompt("stop"))
        #expect(world.server.run(for: .seconds(1)))
        #expect((world.shownReply ?? "") == shown)
    }

    @Test func aPromptWithoutWordsIsNoTurn() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        for words in [".", "", "[BLANK_AUDIO]"] { client.send(prompt(words)) }
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.agent.requests.isEmpty)
        #expect(client.texts == [])
    }

    @Test func anInterruptionStopsTheReplyInFlight() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        client.send(prompt("how far did you go"))
        #expect(world.server.run(for: .milliseconds(20)))
        client.send(#"{"type":"interrupt","utteranceUntilInterrupt":""}"#)
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.server.metrics.total(of: \.responsesCancelled) == 1)
        #expect(!client.texts.contains(Self.spoken[0]))
    }

    /// Part of the reply has been sent, and is spoken, while the model still writes.
    @Test func aReplyInFlightEndsAtTheWordsThatWereHeard() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        world.agent.stalls()
        client.send(prompt("how far did you go"))
        #expect(world.server.run(for: .seconds(1)))
        #expect(client.texts == [Self.spoken[0]])
        client.send(#"{"type":"interrupt","utteranceUntilInterrupt":"I have gone"}"#)
        client.send(prompt("stop"))
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.server.metrics.total(of: \.responsesCancelled) == 1)
        #expect(world.shownReply == "I have gone")
    }

    @Test func aFloodOfInterruptionsEndsTheCall() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        for _ in 0..<3_000 {
            client.send(#"{"type":"interrupt","utteranceUntilInterrupt":"I have"}"#)
        }
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.server.metrics.total(of: .floodCloses) == 1)
    }

    /// The carrier is told the language of the session where it has one, and when it changes.
    @Test func theCarrierFollowsTheSessionsLanguage() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world, parameters: #"{"language":"sv-SE"}"#)
        func language(_ name: String) -> String {
            #"{"type":"language","ttsLanguage":"\#(name)","transcriptionLanguage":"\#(name)"}"#
        }
        #expect(client.texts == [language("sv-SE")])
        let id = try #require(world.session?.id)
        let sideband = world.server.openClient("/v1/realtime?call_id=\(id)")
        #expect(world.server.run())
        for name in ["de-DE", "de-DE", "en-US"] {
            sideband.send(
                #"{"type":"session.update","session":{"type":"realtime","instructions":"x","#
                    + #""audio":{"input":{"transcription":{"language":"\#(name)"}}}}}"#)
        }
        #expect(world.server.run())
        #expect(client.texts == ["sv-SE", "de-DE", "en-US"].map(language))
    }

    /// A library asks for audio: nothing that this server speaks would be heard.
    @Test func aSidebandsResponseIsText() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        let id = try #require(world.session?.id)
        let sideband = world.server.openClient("/v1/realtime?call_id=\(id)")
        #expect(world.server.run())
        sideband.send(
            #"{"type":"response.create","response":{"output_modalities":["audio"]}}"#)
        #expect(world.server.run(for: .seconds(1)))
        #expect(client.texts == Self.spoken)
    }

    @Test func keysAndAGreetingWorkAsOnALineWithAudio() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world, parameters: #"{"greeting":"Greet.","dtmf":"item"}"#)
        #expect(client.texts == Self.spoken)
        client.send(#"{"type":"dtmf","digit":"7"}"#)
        client.send(##"{"type":"dtmf","digit":"#"}"##)
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.agent.requests.last?.messages.last == .user("Keys pressed: 7#"))
        #expect(client.texts == Self.spoken + Self.spoken)
    }

    @Test func anErrorOfTheCarriersIsLogged() throws {
        let log = LogRecord()
        let world = try CallWorld([.conversationRelay], log: log, hears: false)
        let client = try begin(world)
        client.send(#"{"type":"error","description":"Invalid message: unknown type"}"#)
        #expect(world.server.run())
        #expect(log.lines.contains { $0.contains("Invalid message: unknown type") })
    }

    @Test func theServersEndIsAMessage() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        world.server.shard.stop(.goingAway)
        #expect(world.server.run(for: .seconds(1)))
        #expect(client.texts == [#"{"type":"end"}"#])
        #expect(client.closeCode == 1001)
    }

    /// A sideband's own question to the model is not for the caller.
    @Test func aReplyOutsideTheConversationIsNotSpoken() throws {
        let world = try CallWorld([.conversationRelay], hears: false)
        let client = try begin(world)
        let id = try #require(world.session?.id)
        let sideband = world.server.openClient("/v1/realtime?call_id=\(id)")
        #expect(world.server.run())
        sideband.send(
            #"{"type":"response.create","response":{"conversation":"none","input":[{"#
                + #""type":"message","role":"user","content":[{"type":"input_text","#
                + #""text":"sum up"}]}]}}"#)
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.agent.requests.count == 1)
        #expect(client.texts.isEmpty)
        client.send(prompt("hello"))
        #expect(world.server.run(for: .seconds(1)))
        #expect(client.texts == Self.spoken)
    }
}
