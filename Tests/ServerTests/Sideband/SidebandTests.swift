// Connections that join a running session, on its own and on another shard: what they see and may
// do, who may join, their limits, and that the session's client notices none of it.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct SidebandTests {
    // MARK: Joining

    @Test(arguments: [true, false])
    func aSidebandSeesTheSessionAndItsEvents(isOnAnotherShard: Bool) throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let before = client.texts.count
        let sideband = try world.join(client, on: isOnAnotherShard ? world.second : world.first)
        #expect(sideband.eventTypes == ["session.created"])
        #expect(sideband.hasSeen(try world.id(client)))
        #expect(sideband.hasSeen(#""output_modalities":["text"]"#), "as the client has set it")
        #expect(client.texts.count == before)
        world.say("Hi", client)
        #expect(Array(sideband.texts.dropFirst()) == Array(client.texts.dropFirst(before)))
        #expect(sideband.eventTypes.last == "rate_limits.updated")
        #expect(world.first.metrics.total(of: .sidebandsOpen) == 1)
        #expect(world.first.metrics.total(of: .sessionsOpen) == 1)
        sideband.close()
        world.run()
        #expect(world.first.metrics.total(of: .sidebandsOpen) == 0)
        world.say("Hi", client)
        #expect(client.closeCode == nil && client.events("response.done").count == 2)
    }

    @Test func aSidebandsEventsAreInputsOfTheSession() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sideband = try world.join(client)
        sideband.send(
            #"{"type":"session.update","session":{"type":"realtime","instructions":"Be kind."}}"#)
        world.run()
        #expect(client.texts.last?.contains("Be kind.") == true, "it sees what has changed")
        world.say("Hi", sideband)
        #expect(world.model.requests.last?.instructions == "Be kind.")
        #expect(client.events("response.done").count == 1)
        #expect(sideband.events("response.done").count == 1)
        world.say("slowly weather", client)
        sideband.send(#"{"type":"response.cancel"}"#)
        world.run()
        #expect(client.texts.last { $0.contains("response.done") }?.contains("cancelled") == true)
    }

    @Test(arguments: [true, false])
    func aPingOfASidebandIsAnsweredToItAlone(isOnAnotherShard: Bool) throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sideband = try world.join(client, on: isOnAnotherShard ? world.second : world.first)
        let other = try world.join(client, on: world.first)
        let seen = (client.texts.count, other.texts.count)
        sideband.send(#"{"type":"parley.ping"}"#)
        world.run()
        #expect(sideband.eventTypes == ["session.created", "parley.pong"])
        #expect((client.texts.count, other.texts.count) == seen)
        client.send(#"{"type":"parley.ping"}"#)
        world.run()
        #expect(client.eventTypes.last == "parley.pong")
        #expect(sideband.events("parley.pong").count == 1 && other.texts.count == seen.1)
    }

    @Test func errorsOfASidebandAreForItAlone() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sideband = try world.join(client)
        let other = try world.join(client, on: world.first)
        let seen = client.texts.count
        for event in [
            "no JSON", #"{"type":"response.cancel","event_id":"mine"}"#,
            #"{"type":"input_audio_buffer.append","audio":"AAAA","event_id":"heard"}"#,
        ] {
            sideband.send(event)
        }
        world.run()
        let errors = sideband.events("error")
        #expect(errors.count == 3)
        #expect(errors[1].contains(#""event_id":"mine""#))
        #expect(errors[2].contains("unsupported_in_sideband"))
        #expect(errors[2].contains(#""event_id":"heard""#))
        #expect(client.texts.count == seen && other.texts.count == 1)
        client.send(#"{"type":"response.cancel"}"#)
        world.run()
        #expect(client.events("error").count == 1)
        sideband.send(.binary, [1, 2])
        world.run()
        #expect(sideband.closeCode == 1003 && client.closeCode == nil)
    }

    @Test func theEndOfTheSessionIsTheEndOfItsSidebands() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sidebands = [try world.join(client), try world.join(client, on: world.first)]
        client.close()
        world.run()
        for sideband in sidebands {
            #expect(sideband.messages.last == .close(1000, "The session has ended."))
        }
        #expect(world.first.metrics.total(of: .sidebandsOpen) == 0)
        #expect(world.first.shard.sidebands.observations.isEmpty)
    }

    // MARK: Who may join

    @Test func onlyAKeyOfTheSessionsOwnerMayJoin() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let foreign = try world.join(client, key: SidebandWorld.otherKey)
        #expect(foreign.answer?.status == 404 && foreign.refusal == "session_not_found")
        let unknown = world.second.openClient(
            "/v1/realtime?call_id=sess_0000000000", key: SidebandWorld.key)
        world.run()
        #expect(unknown.answer?.status == 404 && unknown.answer?.body == foreign.answer?.body)
        #expect(try world.join(client, key: nil).answer?.status == 401)
        #expect(try world.join(client, key: SidebandWorld.operatorKey).answer?.status == 101)
        #expect(try world.hangUp(world.id(client), key: SidebandWorld.otherKey).status == 404)
        #expect(client.closeCode == nil)
    }

    @Test func aClientSecretMayNotJoinButItsSessionMayBeJoined() throws {
        let world = try SidebandWorld()
        let peer = world.first.connect()
        peer.send(
            "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(SidebandWorld.key)\r\nContent-Length: 2\r\n\r\n{}")
        world.run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        let body = try JSONParser().parse(try #require(responses.first).body)
        let secret = try #require(body["value"]?.string)
        let client = world.openClient(key: secret)
        let refused = try world.join(client, key: secret, on: world.first)
        #expect(refused.answer?.status == 403 && refused.refusal == "insufficient_permissions")
        #expect(try world.join(client).answer?.status == 101)
    }

    @Test func withoutKeysOnlyThisMachineMayJoin() throws {
        let world = try SidebandWorld(keys: "")
        let client = world.openClient(key: nil)
        let id = try world.id(client)
        let far = world.second.openClient("/v1/realtime?call_id=\(id)", from: "203.0.113.9")
        world.run()
        #expect(far.answer?.status == 403 && far.refusal == "loopback_only")
        #expect(try world.hangUp(id, key: nil, from: "203.0.113.9").status == 403)
        #expect(try world.join(client, key: nil).answer?.status == 101)
    }

    @Test func aSessionHasAFewSidebands() throws {
        let world = try SidebandWorld { $0.sidebands.maxPerSession = 1 }
        let client = world.openClient()
        let sideband = try world.join(client)
        let second = try world.join(client)
        #expect(second.answer?.status == 429 && second.refusal == "too_many_sidebands")
        sideband.close()
        world.run()
        #expect(try world.join(client).answer?.status == 101)
    }

    @Test(arguments: [
        "tools=" + String(repeating: "a", count: 65), "tools=a%20b",
        "tools=" + (0...32).map { "f\($0)" }.joined(separator: ","),
    ])
    func namesThatNoFunctionHasAreRefused(query: String) throws {
        let world = try SidebandWorld()
        let client = world.second.openClient(
            "/v1/realtime?call_id=sess_1&\(query)", key: SidebandWorld.key)
        world.run()
        #expect(client.answer?.status == 400 && client.refusal == "invalid_value")
    }

    @Test func aShardThatDoesNotAnswerMayHaveTheSession() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        world.offer("lookup", by: client)
        let sideband = world.second.openClient(
            "/v1/realtime?call_id=\(try world.id(client))&tools=lookup", key: SidebandWorld.key)
        #expect(world.second.run(for: .seconds(1)))
        #expect(sideband.answer?.status == 503)
        // The session was joined too late, and is left again, as it was.
        world.run()
        #expect(world.first.shard.sidebands.observations.isEmpty)
        world.say("Hi", client)
        #expect(client.events("response.done").count == 1)
        #expect(world.model.requests.last?.tools.map(\.name) == ["lookup"])
    }

    // MARK: Slow sidebands

    @Test func aSlowSidebandIsCutOffAndTheCallGoesOn() throws {
        let world = try SidebandWorld { $0.sidebands.maxQueuedBytes = 64 << 10 }
        let client = world.openClient()
        let sideband = try world.join(client)
        sideband.peer.window = 0
        world.writeLongItems(10, by: client)
        #expect(world.first.metrics.total(of: .sidebandsCutOff) == 1)
        #expect(world.first.metrics.total(of: .sidebandsOpen) == 0)
        world.say("Hi", client)
        #expect(client.closeCode == nil && client.events("response.done").count == 1)
        sideband.peer.window = 1 << 20
        world.run()
        #expect(sideband.closeCode == 1013)
    }

    @Test func aShardThatStandsStillHoldsABoundedQueue() throws {
        let world = try SidebandWorld { $0.sidebands.maxQueuedBytes = 64 << 10 }
        let client = world.openClient()
        let sideband = try world.join(client)
        let link = try #require(world.second.shard.sidebands.joined.values.first).link
        let text = String(repeating: "x", count: 10_000)
        for _ in 0..<20 {
            client.send(
                #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                    + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
            #expect(world.first.run())
        }
        #expect((64 << 10..<100_000).contains(link.eventBytes), "\(link.eventBytes)")
        #expect(world.first.shard.sidebands.observations.isEmpty)
        world.run()
        #expect(link.eventBytes == 0 && sideband.closeCode == 1013)
        #expect(client.closeCode == nil)
    }

    @Test func aFloodOfEventsForAShardThatStandsStillEndsTheSideband() throws {
        let world = try SidebandWorld { $0.sidebands.maxQueuedBytes = 64 << 10 }
        let client = world.openClient()
        let sideband = try world.join(client)
        let padding = String(repeating: " ", count: 30_000)
        for _ in 0..<4 {
            sideband.send(#"{"type":"response.cancel"\#(padding)}"#)
            #expect(world.second.run())
        }
        #expect(sideband.closeCode == 1013)
        world.run()
        #expect(client.closeCode == nil)
        world.say("Hi", client)
        #expect(client.events("response.done").count == 1)
    }

    // MARK: Hanging up

    @Test func aSessionIsHungUpFromAnyShard() throws {
        let world = try SidebandWorld()
        for server in [world.first, world.second] {
            let client = world.openClient()
            let sideband = try world.join(client)
            let id = try world.id(client)
            let response = try world.hangUp(id, on: server)
            #expect(response.status == 200 && response.body.isEmpty)
            #expect(client.messages.last == .close(1000, "The call was hung up."))
            #expect(sideband.closeCode == 1000)
            #expect(try world.hangUp(id, on: server).status == 404)
        }
        #expect(world.first.metrics.total(of: .callsHungUp) == 2)
        #expect(try world.hangUp("%FF").status == 404)
    }

    // MARK: Quotas

    @Test func aSidebandUsesTheQuotasOfItsKeyAndItsSession() throws {
        let world = try SidebandWorld(
            keys: "\(SidebandWorld.key) quotas=connections=2/minute,events=2/day\n")
        let client = world.openClient()
        let sideband = try world.join(client, on: world.first)
        #expect(sideband.isOpen)
        #expect(try world.join(client, on: world.first).answer?.status == 429)
        // The client's session.update was the first event.
        for number in 1...2 {
            sideband.send(#"{"type":"response.cancel","event_id":"event_\#(number)"}"#)
            world.run()
        }
        let error = try JSONParser().parse(try #require(sideband.texts.last))["error"]
        #expect(error?["event_id"]?.string == "event_2")
        #expect(error?["code"]?.string == "rate_limit_exceeded")
        #expect(!client.eventTypes.contains("error"))
    }

    // MARK: Operators

    @Test func theSessionListShowsSidebands() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        _ = try world.join(client)
        let id = try world.id(client)
        let peer = world.first.connect()
        peer.send(
            "GET /admin/sessions?state=connection HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(SidebandWorld.operatorKey)\r\n\r\n"
                + "GET /admin/sessions/\(id) HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(SidebandWorld.operatorKey)\r\n\r\n")
        world.run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get, .get])
        let list = try JSONParser().parse(responses[0].body)["data"]?.elements
        let joined = try #require(list).compactMap { $0["joined"]?.string }
        #expect(joined == [id])
        #expect(try JSONParser().parse(responses[1].body)["sidebands"]?.int == 1)
    }

    @Test func aSidebandIsClosedByADrainWhenItsSessionIs() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sideband = try world.join(client)
        world.say("slowly weather", client)
        for server in [world.first, world.second] { server.shard.drain(.zero) }
        #expect(world.second.run(for: .milliseconds(500)))
        #expect(sideband.closeCode == nil, "its session is still replying")
        #expect(world.first.run(for: .seconds(60)))
        #expect(world.second.run(for: .seconds(60)))
        #expect(client.closeCode == 1012 && sideband.closeCode == 1000)
    }
}
