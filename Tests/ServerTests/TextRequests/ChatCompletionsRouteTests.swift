// `POST /v1/chat/completions` through a real shard on a simulated kernel: the answers and their
// order, a model that fails, and a client that leaves, stalls or is over the limit.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ChatCompletionsRouteTests {
    private static let path = "/v1/chat/completions"

    private func ask(_ extra: String = "", text: String = "hi") -> String {
        #"{"model":"m","messages":[{"role":"user","content":"\#(text)"}]\#(extra)}"#
    }

    private func post(_ extra: String = "", fields: String = "") -> String {
        TextWorld.post(Self.path, ask(extra), fields: fields)
    }

    @Test func aReplyIsStreamedInChunksAndTheConnectionIsKept() throws {
        let world = try TextWorld(ClosureModel(words: ["One", " two", " three"]))
        let peer = world.send(
            post(#","stream":true,"stream_options":{"include_usage":true}"#))
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.status == 200 && answer.isComplete && answer.rest.isEmpty)
        #expect(answer.head.contains("Content-Type: text/event-stream"))
        #expect(answer.head.contains("Connection: keep-alive"))
        #expect(answer.values(of: "content").joined() == "One two three")
        #expect(
            answer.events.first?.contains(#""delta":{"role":"assistant","content":""}"#) == true)
        #expect(answer.values(of: "finish_reason") == ["stop"])
        #expect(
            answer.events.dropLast().last?.contains(
                #""choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"#
                    + #""prompt_tokens_details":{"cached_tokens":2}}"#) == true)
        #expect(answer.events.last == "[DONE]")
        peer.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(world.server.run())
        let (next, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(next.map(\.status) == [200])
        peer.finishWriting()
        world.expectNothingLeft()
    }

    @Test func aReplyThatIsNotStreamedIsOneObject() throws {
        let world = try TextWorld(ClosureModel(words: ["One", " two"]))
        let peer = world.send(post())
        let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
        let answer = try #require(answers.first)
        #expect(answer.status == 200)
        #expect(answer.fields["Content-Type"] == "application/json")
        let body = text(answer)
        #expect(body.contains(#""object":"chat.completion","created":"#))
        #expect(
            body.contains(#""message":{"role":"assistant","content":"One two","refusal":null}"#))
        #expect(body.contains(#""finish_reason":"stop""#))
        #expect(body.contains(#""usage":{"prompt_tokens":7,"#))
    }

    @Test func theModelGetsTheClientsMessages() throws {
        let model = ClosureModel(words: ["ok"])
        let world = try TextWorld(model)
        let messages =
            #"[{"role":"system","content":"Be brief."},{"role":"developer","content":"Be kind."},"#
            + #"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},"#
            + #"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","#
            + #""function":{"name":"f","arguments":"{\"x\":1}"}}]},"#
            + #"{"role":"tool","tool_call_id":"c1","content":"42"},"#
            + #"{"role":"assistant","content":"It is 42."},{"role":"user","content":"why?"}]"#
        let tools =
            #"[{"type":"function","function":{"name":"f","description":"d","#
            + #""parameters":{"type":"object"}}}]"#
        let body =
            #"{"model":"m","messages":\#(messages),"tools":\#(tools),"max_tokens":9,"#
            + #""tool_choice":{"type":"function","function":{"name":"f"}},"temperature":0.2}"#
        _ = world.send(TextWorld.post(Self.path, body))
        let asked = try #require(model.requests.first)
        #expect(asked.model == "m" && asked.maxOutputTokens == 9)
        #expect(
            asked.messages == [
                .system("Be brief."), .system("Be kind."), .user("a b"),
                .functionCall(callID: "c1", name: "f", arguments: #"{"x":1}"#),
                .functionOutput(callID: "c1", output: "42"), .assistant("It is 42."),
                .user("why?"),
            ])
        #expect(
            asked.tools == [
                FunctionTool(
                    name: "f", description: "d", parameters: RawJSON(#"{"type":"object"}"#))
            ])
        #expect(asked.toolChoice == .function(name: "f"))
    }

    @Test(arguments: [true, false])
    func callsHaveTheirPlaceAndArguments(streams: Bool) throws {
        let world = try TextWorld(
            ClosureModel { _, _, reply in
                try await reply(.text("Wait."))
                try await reply(.functionCallStarted(callID: "c1", name: "f"))
                try await reply(.functionCallArguments(#"{"a":"#))
                try await reply(.functionCallArguments("1}"))
                try await reply(.functionCallStarted(callID: "c2", name: "g"))
                try await reply(.functionCallArguments("{}"))
            })
        let peer = world.send(post(streams ? #","stream":true"# : ""))
        let bytes = peer.receive()
        guard streams else {
            let (answers, _) = try parseResponses(bytes, answering: [.post])
            let body = text(try #require(answers.first))
            #expect(
                body.contains(
                    #""tool_calls":[{"id":"c1","type":"function","function":{"name":"f","#
                        + #""arguments":"{\"a\":1}"}},{"id":"c2","type":"function","#
                        + #""function":{"name":"g","arguments":"{}"}}]"#))
            #expect(body.contains(#""finish_reason":"tool_calls""#))
            return
        }
        let events = StreamedAnswer(bytes).events
        #expect(
            events.contains {
                $0.contains(
                    #""tool_calls":[{"index":0,"id":"c1","type":"function","function":"#
                        + #"{"name":"f","arguments":""}}]"#)
            })
        #expect(
            events.contains {
                $0.contains(#"{"index":1,"id":"c2","type":"function","function":{"name":"g""#)
            })
        #expect(StreamedAnswer(bytes).values(of: "finish_reason") == ["tool_calls"])
    }

    // MARK: Failures

    @Test(arguments: [
        (AgentError.upstream(status: 500, message: "secret"), 502, "upstream_error"),
        (.overloaded, 503, "server_overloaded"),
        (.unavailable(message: "No model."), 503, "agent_unavailable"),
        (.unknownModel(message: "No such model."), 404, "model_not_found"),
        (.malformedReply(message: "Rubbish."), 502, "upstream_malformed_reply"),
        (.agentLost(hasSpoken: false), 502, "agent_lost"),
        (
            .rateLimited(retryAfter: .milliseconds(6_500), detail: "secret"), 429,
            "rate_limit_exceeded"
        ),
    ])
    func aModelThatFailsAtOnceIsAStatus(error: AgentError, status: Int, code: String) throws {
        for extra in ["", #","stream":true"#] {
            let world = try TextWorld(ClosureModel { _, _, _ in throw error })
            let peer = world.send(post(extra))
            let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
            let answer = try #require(answers.first)
            #expect(answer.status == status)
            #expect(text(answer).contains(#""code":"\#(code)""#))
            #expect(!text(answer).contains("secret"))
            let seconds = status == 503 ? "5" : status == 429 ? "7" : nil
            #expect(answer.fields["Retry-After"] == seconds)
            #expect(!peer.isEnded, "the connection is kept")
        }
    }

    @Test func aModelThatFailsInTheMiddleEndsTheStreamInAnError() throws {
        let world = try TextWorld(
            ClosureModel { _, host, reply in
                try await reply(.text("So far"))
                try await host.sleep(for: .seconds(1))
                throw AgentError.upstream(status: 0, message: "broken")
            })
        let peer = world.send(post(#","stream":true"#))
        #expect(world.server.run(for: .seconds(2)))
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.status == 200 && answer.isComplete)
        #expect(answer.events.last?.hasPrefix(#"{"error":{"message":""#) == true)
        #expect(!answer.events.contains("[DONE]"))
        #expect(answer.values(of: "finish_reason").isEmpty)
    }

    @Test(arguments: [
        ("max_output_tokens", "length"), ("content_filter", "content_filter"),
    ])
    func aReplyThatIsCutSaysWhy(reason: String, finish: String) throws {
        let world = try TextWorld(
            ClosureModel { _, _, reply in
                try await reply(.text("So far"))
                try await reply(.incomplete(reason: reason))
            })
        let peer = world.send(post(#","stream":true"#))
        #expect(StreamedAnswer(peer.receive()).values(of: "finish_reason") == [finish])
    }

    @Test func aReplyOverTheSessionsLimitIsCut() throws {
        let world = try TextWorld(
            ClosureModel(words: Array(repeating: "word ", count: 1_000))
        ) { $0.session.maxResponseBytes = 1_024 }
        let peer = world.send(post(#","stream":true"#))
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.values(of: "finish_reason") == ["length"])
        #expect(answer.values(of: "content").joined().utf8.count <= 1_024)
    }

    // MARK: Clients that leave or stall

    private static let endless = { @Sendable () -> ClosureModel in
        ClosureModel { _, host, reply in
            while true {
                try await reply(.text(String(repeating: "word ", count: 20)))
                try await host.sleep(for: .milliseconds(1))
            }
        }
    }

    @Test(arguments: [true, false], ["", #","stream":true"#])
    func aClientThatLeavesStopsItsModel(resets: Bool, extra: String) throws {
        let model = Self.endless()
        let world = try TextWorld(model)
        let peer = world.send(post(extra))
        #expect(world.server.run(for: .milliseconds(100)))
        #expect(world.openRequests == 1 && model.cancelled == 0)
        if resets { peer.reset() } else { peer.finishWriting() }
        #expect(world.server.run(for: .milliseconds(10)))
        #expect(model.cancelled == 1 && world.openRequests == 0)
        #expect(world.server.metrics.total(of: .textRequestsAbandoned) == 1)
        world.expectNothingLeft()
    }

    @Test func aClientThatDoesNotReadPausesItsModelAndIsCutOff() throws {
        let model = ClosureModel { _, _, reply in
            while true { try await reply(.text(String(repeating: "word ", count: 100))) }
        }
        let world = try TextWorld(model) { $0.session.maxResponseBytes = 1 << 30 }
        let peer = world.send(post(#","stream":true"#), window: 4_096)
        #expect(world.server.run(for: .seconds(30)))
        let deltas = model.deltas
        // 500 bytes each: the log's 64 KiB, the send buffer's, and the bytes on their way.
        #expect(deltas > 100 && deltas < 1_000)
        #expect(world.server.metrics.total(of: .sendBufferBytes) < 512 << 10)
        // The reply continues once the client reads.
        peer.window = 1 << 20
        var received = peer.receive()
        #expect(world.server.run(for: .milliseconds(1)))
        received += peer.receive()
        #expect(model.deltas > deltas)
        peer.window = 0
        #expect(world.server.run(for: .seconds(59)))
        #expect(!peer.isClosed)
        #expect(world.server.run(for: .seconds(30)))
        #expect(peer.isClosed && model.cancelled == 1)
        #expect(world.server.metrics.total(of: .slowReaderCloses) == 1)
        #expect(!StreamedAnswer(received).isComplete)
        world.expectNothingLeft()
    }

    @Test func aStreamIsTheSameHoweverItIsWrittenAndRead() throws {
        let words = (0..<200).map { "word\($0) " }
        for seed in UInt64(1)...20 {
            let world = try TextWorld(ClosureModel(words: words), faults: .harsh, seed: seed)
            let peer = world.server.connect(window: 100)
            var received: [UInt8] = []
            for byte in post(#","stream":true"#).utf8 {
                peer.send([byte])
                if seed % 2 == 0 { #expect(world.server.run()) }
            }
            for _ in 0..<5_000 {
                #expect(world.server.run())
                let piece = peer.receive(atMost: 97)
                received += piece
                if StreamedAnswer(received).isComplete { break }
            }
            let answer = StreamedAnswer(received)
            #expect(answer.isComplete && answer.events.last == "[DONE]")
            #expect(answer.values(of: "content").joined() == words.joined())
            peer.reset()
            world.expectNothingLeft()
        }
    }

    @Test func aSilentModelIsBridgedByCommentsOnceTheStreamHasBegun() throws {
        let world = try TextWorld(
            ClosureModel { _, host, reply in
                try await host.sleep(for: .seconds(100))
                try await reply(.text("At last"))
                try await host.sleep(for: .seconds(100))
            })
        let peer = world.send(post(#","stream":true"#))
        #expect(world.server.run(for: .seconds(99)))
        #expect(peer.unreadBytes == 0 && !peer.isClosed, "a status may still tell of a failure")
        #expect(world.server.run(for: .seconds(110)))
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.isComplete && answer.comments >= 3)
        #expect(answer.events.last == "[DONE]")
    }

    @Test func pipelinedRequestsWaitForTheReplyBeforeThem() throws {
        let world = try TextWorld(ClosureModel(words: ["a", "b"]))
        let peer = world.send(
            post() + "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + post())
        let (answers, rest) = try parseResponses(
            peer.receive(), answering: [.post, .get, .post])
        #expect(answers.map(\.status) == [200, 200, 200] && rest.isEmpty)
        #expect(text(answers[1]) == "ok\n")
    }

    @Test func requestsBehindAReplyAreBounded() throws {
        let world = try TextWorld(Self.endless()) { $0.session.maxResponseBytes = 1 << 30 }
        let peer = world.send(post(#","stream":true"#))
        for _ in 0..<100 {
            peer.send([UInt8](repeating: 65, count: 10_000))
            #expect(world.server.run(for: .milliseconds(1)))
            _ = peer.receive()
        }
        var pending = 0
        world.server.shard.connections.forEach { pending += $0.http?.pending.count ?? 0 }
        #expect(pending < 256 << 10)
        peer.reset()
        world.expectNothingLeft()
    }

    @Test func anOldClientGetsTheStreamUntilTheConnectionEnds() throws {
        let world = try TextWorld(ClosureModel(words: ["One"]))
        let peer = world.send(
            TextWorld.post(Self.path, ask(#","stream":true"#), version: "1.0"))
        let bytes = String(decoding: peer.receive(), as: UTF8.self)
        #expect(bytes.contains("Connection: close") && !bytes.contains("chunked"))
        #expect(bytes.hasSuffix("data: [DONE]\n\n") && peer.isEnded)
    }

    // MARK: Limits and the end

    @Test func aRequestOverTheLimitIsAnsweredWithRetryAfter() throws {
        let world = try TextWorld(Self.endless()) { $0.textRequests.maxRequests = 1 }
        let first = world.send(post(#","stream":true"#))
        let second = world.send(post())
        let (answers, _) = try parseResponses(second.receive(), answering: [.post])
        #expect(answers.map(\.status) == [503])
        #expect(answers.first?.fields["Retry-After"] == "5")
        #expect(world.server.metrics.total(of: .textRequestsRefused) == 1)
        first.reset()
        #expect(world.server.run(for: .milliseconds(10)))
        second.send(post(#","stream":true"#))
        #expect(world.server.run())
        #expect(world.openRequests == 1, "its place is free again")
        second.reset()
        world.expectNothingLeft()
    }

    @Test func aDrainWaitsForTheReply() throws {
        let world = try TextWorld(
            ClosureModel { _, host, reply in
                try await reply(.text("One"))
                try await host.sleep(for: .seconds(10))
                try await reply(.text(" two"))
            })
        let peer = world.send(post(#","stream":true"#))
        world.server.shard.drain(.zero)
        #expect(world.server.run(for: .seconds(20)))
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.isComplete && answer.values(of: "content").joined() == "One two")
        #expect(world.server.hasStopped || peer.isEnded)
    }

    @Test func aDrainThatIsOverCutsTheReply() throws {
        let model = Self.endless()
        let world = try TextWorld(model) {
            $0.drain.timeout = .seconds(2)
            $0.session.maxResponseBytes = 1 << 30
        }
        let peer = world.send(post(#","stream":true"#))
        world.server.shard.drain(.zero)
        #expect(world.server.run(for: .seconds(10)))
        #expect(world.server.hasStopped && model.cancelled == 1)
        #expect(!StreamedAnswer(peer.receive()).isComplete, "it must not look complete")
    }

    @Test(arguments: [
        (#","stop":"three""#, "One two "), (#","stop":["none","o t"]"#, "One tw"),
        (#","stop":[]"#, "One two three four"), (#","stop":null"#, "One two three four"),
        (#","stop":"four and""#, "One two three four"),
    ])
    func aReplyEndsInFrontOfAStopWord(stop: String, said: String) throws {
        for stream in ["", #","stream":true"#] {
            let world = try TextWorld(
                ClosureModel(words: ["One t", "wo thr", "ee", " four"]))
            let peer = world.send(post(stop + stream))
            if stream.isEmpty {
                let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
                let body = text(try #require(answers.first))
                #expect(body.contains(#""content":"\#(said)""#), "\(body)")
                #expect(body.contains(#""finish_reason":"stop""#))
            } else {
                let answer = StreamedAnswer(peer.receive())
                #expect(answer.values(of: "content").joined() == said && answer.isComplete)
                #expect(answer.values(of: "finish_reason") == ["stop"])
                #expect(answer.events.last == "[DONE]")
            }
            peer.reset()
            world.expectNothingLeft()
        }
    }

    @Test func aStopWordEndsTheModel() throws {
        let model = ClosureModel { _, host, reply in
            for word in ["tick ", "tack ", "tock "] {
                try await reply(.text(word))
                try await host.sleep(for: .seconds(1))
            }
            try await host.sleep(for: .seconds(1_000))
        }
        let world = try TextWorld(model)
        let peer = world.send(post(#","stop":"tock","stream":true"#))
        #expect(world.server.run(for: .seconds(10)))
        #expect(world.openRequests == 0 && model.cancelled == 1)
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.isComplete && answer.values(of: "content").joined() == "tick tack ")
    }

    @Test func anEmptyMessageOfTheUserIsAMessage() throws {
        let world = try TextWorld(ClosureModel(words: ["Yes?"]))
        let system = #"{"role":"system","content":"Be brief."}"#
        let empty = #"{"role":"user","content":""}"#
        for messages in [empty, "\(system),\(empty)", #"\#(empty),\#(empty)"#] {
            let body = #"{"model":"m","messages":[\#(messages)]}"#
            let peer = world.send(TextWorld.post(Self.path, body))
            let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
            #expect(answers.map(\.status) == [200])
        }
        #expect(
            world.model.requests.map(\.messages) == [
                [.user("")], [.system("Be brief."), .user("")], [.user("")],
            ])
    }

    @Test func pagesOfAllowedOriginsMayAsk() throws {
        let world = try TextWorld(ClosureModel(words: ["One"])) {
            $0.admission.allowedOrigins = OriginPattern("https://app.example").map { [$0] } ?? []
        }
        let allowed = world.send(
            post(
                #","stream":true"#,
                fields: "Origin: https://app.example\r\nContent-Type: application/json\r\n"))
        #expect(
            StreamedAnswer(allowed.receive()).head.contains(
                "Access-Control-Allow-Origin: https://app.example"))
        let foreign = world.send(post(fields: "Origin: https://evil.example\r\n"))
        #expect(StreamedAnswer(foreign.receive()).status == 403)
        #expect(world.model.requests.count == 1)
    }
}
