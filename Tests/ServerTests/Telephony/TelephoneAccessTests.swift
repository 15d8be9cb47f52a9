// Who may call: signatures, secrets in the path, keys; and calls that do not begin.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TelephoneAccessTests {
    private static let key = "sk-telephone-0123456789abcdef"
    private static let url = "wss://voice.example.com"

    private func status(
        _ path: String, _ fields: [(String, String)] = [],
        _ carriers: [TelephoneCarrier] = TelephoneCarrier.allCases, keys: String? = nil,
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> Int? {
        let world = try CallWorld(carriers, keys: keys, change)
        let client = world.server.openClient(path, subprotocols: [], fields: fields)
        #expect(world.server.run())
        return client.answer?.status
    }

    private func signed(_ url: String, token: String = "12345") -> [(String, String)] {
        [("X-Twilio-Signature", CallSigning.twilio.signature(of: url, token: token))]
    }

    @Test func aCarrierHasARouteWhereItIsSwitchedOn() throws {
        for carrier in TelephoneCarrier.allCases {
            #expect(try status("/\(carrier.rawValue)", [], [carrier]) == 101)
            let others = TelephoneCarrier.allCases.filter { $0 != carrier }
            #expect(try status("/\(carrier.rawValue)", [], others) == 404)
        }
    }

    @Test func twiliosSignatureIsChecked() throws {
        func twilio(_ fields: [(String, String)], path: String = "/twilio") throws -> Int? {
            try status(path, fields, keys: "\(Self.key)\n") {
                $0.telephone.twilioAuthToken = "12345"
                $0.telephone.url = Self.url + "/"
            }
        }
        #expect(try twilio(signed(Self.url + "/twilio")) == 101)
        #expect(try twilio(signed("https://voice.example.com/twilio")) == 101)
        #expect(
            try twilio(
                signed(Self.url + "/conversation-relay"), path: "/conversation-relay") == 101)
        #expect(try twilio([]) == 403)
        #expect(try twilio(signed(Self.url + "/telnyx")) == 403)
        #expect(try twilio(signed("wss://other.example.com/twilio")) == 403)
        #expect(try twilio(signed(Self.url + "/twilio", token: "12346")) == 403)
        // A key of the server's opens the route as well, but not beside a wrong signature.
        let bearer = ("Authorization", "Bearer \(Self.key)")
        #expect(try twilio([bearer]) == 101)
        #expect(try twilio([bearer] + signed("wss://other/twilio")) == 403)
    }

    /// Carriers sign a URL without its port or with it.
    @Test(arguments: [
        ("wss://voice.example.com:8443", "voice.example.com", true),
        ("wss://voice.example.com:8443", "voice.example.com:8443", true),
        ("wss://voice.example.com:8443", "voice.example.com:443", false),
        ("wss://voice.example.com:443", "voice.example.com", true),
        ("wss://voice.example.com", "voice.example.com:443", true),
        ("wss://voice.example.com", "voice.example.com:8443", false),
        ("wss://[2001:db8::1]:8443", "[2001:db8::1]", true),
        ("wss://[2001:db8::1]", "[2001:db8::1]:443", true),
    ])
    func thePortOfTheURLMayBeSignedOrNot(url: String, signed: String, isValid: Bool) throws {
        let twilio = try status("/twilio", self.signed("wss://\(signed)/twilio")) {
            $0.telephone.twilioAuthToken = "12345"
            $0.telephone.url = url
        }
        #expect(twilio == (isValid ? 101 : 403))
        let signature = CallSigning.plivo.signature(
            of: "https://\(signed)/plivo", nonce: "n", token: "t")
        let fields = [("X-Plivo-Signature-V3", signature), (CallSigning.nonceField, "n")]
        let plivo = try status("/plivo", fields) {
            $0.telephone.plivoAuthToken = "t"
            $0.telephone.url = url
        }
        #expect(plivo == (isValid ? 101 : 403))
    }

    @Test func anEmptyNonceProvesNothing() throws {
        let signature = CallSigning.plivo.signature(
            of: "https://voice.example.com/plivo", nonce: "", token: "t")
        let fields = [("X-Plivo-Signature-V3", signature), (CallSigning.nonceField, "")]
        #expect(
            try status("/plivo", fields) {
                $0.telephone.plivoAuthToken = "t"
                $0.telephone.url = Self.url
            } == 403)
    }

    /// A server without keys believes no credential: anybody could make one up.
    @Test(arguments: ["Bearer anything", "Basic \(Base64.text(of: Array("any:thing".utf8)))"])
    func aServerWithoutKeysTakesNoOtherProof(authorization: String) throws {
        let field = ("Authorization", authorization)
        #expect(try status("/twilio", [field]) { $0.telephone.twilioAuthToken = "12345" } == 403)
        #expect(
            try status("/conversation-relay", [field]) { $0.telephone.twilioAuthToken = "1" } == 403
        )
        #expect(try status("/plivo", [field]) { $0.telephone.plivoAuthToken = "12345" } == 403)
        #expect(try status("/telnyx", [field]) { $0.telephone.secret = "s3cret" } == 401)
        #expect(try status("/asterisk", [field]) { $0.telephone.secret = "s3cret" } == 401)
        // Beside a proof it does no harm.
        let url = "wss://localhost/twilio"
        #expect(
            try status("/twilio", [field] + signed(url)) { $0.telephone.twilioAuthToken = "12345" }
                == 101)
        #expect(
            try status("/telnyx/s3cret", [field]) { $0.telephone.secret = "s3cret" } == 101)
    }

    @Test func aClientThatGuessesTheSecretMustWait() throws {
        let world = try CallWorld([.telnyx, .exotel]) {
            $0.telephone.secret = "s3cret"
            $0.credentials.authFailuresPerMinutePerAddress = 3
        }
        func status(_ path: String, from address: String = "192.0.2.7") -> Int? {
            let client = world.server.openClient(path, subprotocols: [], from: address)
            #expect(world.server.run())
            return client.answer?.status
        }
        for _ in 0..<3 { #expect(status("/telnyx/guess") == 401) }
        #expect(status("/telnyx/s3cret") == 429)
        #expect(status("/telnyx/s3cret", from: "192.0.2.8") == 101)
    }

    @Test func withoutItsURLTheServerTakesTheHost() throws {
        #expect(
            try status("/twilio", signed("wss://localhost/twilio")) {
                $0.telephone.twilioAuthToken = "12345"
            } == 101)
    }

    @Test func plivosSignatureIsChecked() throws {
        let signature = CallSigning.plivo.signature(
            of: "https://voice.example.com/plivo", nonce: "n1", token: "t")
        func plivo(_ signature: String, nonce: String) throws -> Int? {
            try status(
                "/plivo",
                [("X-Plivo-Signature-V3", signature), ("X-Plivo-Signature-V3-Nonce", nonce)]
            ) {
                $0.telephone.plivoAuthToken = "t"
                $0.telephone.url = Self.url
            }
        }
        #expect(try plivo(signature, nonce: "n1") == 101)
        #expect(try plivo(signature, nonce: "n2") == 403)
        #expect(try plivo("", nonce: "n1") == 403)
    }

    @Test func aSecretInThePathOpensCalls() throws {
        func telnyx(_ path: String, keys: String? = nil) throws -> Int? {
            try status(path, [], keys: keys) { $0.telephone.secret = "s3cret" }
        }
        #expect(try telnyx("/telnyx/s3cret") == 101)
        #expect(try telnyx("/telnyx/s3cret", keys: "\(Self.key)\n") == 101)
        #expect(try telnyx("/telnyx/other") == 401)
        #expect(try telnyx("/telnyx") == 401)
        #expect(try telnyx("/v1/realtime/s3cret") == 404)
        // Without the option there is no such path.
        #expect(try status("/telnyx/s3cret") == 404)
    }

    @Test(arguments: [
        "/telnyx/s3cret", "/telnyx/s3cret/", "/telnyx/s3cret/x", "/Telnyx/s3cret",
        "//telnyx/s3cret", "/%74elnyx/s3cret",
    ])
    func noLogHasTheSecret(path: String) throws {
        let log = LogRecord()
        let world = try CallWorld([.telnyx], log: log) { $0.telephone.secret = "s3cret" }
        _ = world.server.openClient(path, subprotocols: [])
        #expect(world.server.run())
        #expect(log.lines.contains { $0.contains("/telnyx/{secret}") })
        #expect(!log.lines.contains { $0.contains("s3cret") })
    }

    @Test func keysOfTheServerOpenCalls() throws {
        func exotel(_ authorization: String?) throws -> Int? {
            try status(
                "/exotel", authorization.map { [("Authorization", $0)] } ?? [],
                keys: "\(Self.key)\n")
        }
        let basic = Base64.text(of: Array("exotel:\(Self.key)".utf8))
        #expect(try exotel("Bearer \(Self.key)") == 101)
        #expect(try exotel("Basic \(basic)") == 101)
        #expect(try exotel("Basic \(Base64.text(of: Array("exotel:wrong".utf8)))") == 401)
        #expect(try exotel("Basic %") == 401)
        #expect(try exotel(nil) == 401)
    }

    /// A password opens no other route.
    @Test func othersStillNeedABearer() throws {
        let basic = Base64.text(of: Array("exotel:\(Self.key)".utf8))
        #expect(
            try status(
                "/v1/realtime", [("Authorization", "Basic \(basic)")], keys: "\(Self.key)\n")
                == 401)
    }

    @Test func aPageMayNotCall() throws {
        #expect(try status("/twilio", [("Origin", "https://evil.example")]) == 403)
    }

    // MARK: Calls that do not begin

    /// Lines of one caller without a call are bounded, and take no place from anyone.
    @Test func manyLinesWithoutACallKeepNoOtherOut() throws {
        let world = try CallWorld { $0.admission.maxSessions = 2 }
        let idle = (0..<40).map { _ in SimulatedCarrier(world.server, starts: false) }
        #expect(world.server.run(for: .milliseconds(10)))
        #expect(
            idle.map(\.client.closeCode) == Array(repeating: 1013, count: 8)
                + Array(repeating: nil, count: 32))
        let calls = (0..<3).map { _ in SimulatedCarrier(world.server) }
        #expect(world.server.run(for: .milliseconds(100)))
        #expect(world.server.metrics.sessions.load(ordering: .relaxed) == 2)
        // The third finds the server full when its call would begin, or before.
        #expect(calls.count { $0.client.closeCode == nil && $0.client.isOpen } == 2)
    }

    @Test func aLineThatDoesNotBeginACallIsClosed() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server, starts: false)
        line.client.send(#"{"event":"connected","protocol":"Call","version":"1.0.0"}"#)
        #expect(world.server.run(for: .seconds(9)))
        #expect(line.client.closeCode == nil)
        // It takes no place: sessions do.
        #expect(world.server.metrics.sessions.load(ordering: .relaxed) == 0)
        #expect(world.server.run(for: .seconds(2)))
        #expect(line.client.closeCode == 1008)
        #expect(line.client.texts.isEmpty)
        #expect(world.server.metrics.sessions.load(ordering: .relaxed) == 0)
    }

    @Test func aLineThatIsLostGivesItsPlaceBack() throws {
        for starts in [true, false] {
            let world = try CallWorld()
            let line = SimulatedCarrier(world.server, starts: starts)
            line.client.peer.reset()
            #expect(world.server.run(for: .seconds(1)))
            #expect(world.server.metrics.sessions.load(ordering: .relaxed) == 0)
            #expect(world.server.metrics.total(of: .callsOpen) == 0)
        }
    }

    @Test func aFullServerTakesNoCall() throws {
        let world = try CallWorld { $0.admission.maxSessions = 1 }
        _ = SimulatedCarrier(world.server)
        let other = world.server.openClient("/twilio", subprotocols: [])
        #expect(world.server.run())
        #expect(other.answer?.status == 503)
    }

    @Test func aCodecThatIsNotSupportedEndsTheCall() throws {
        let world = try CallWorld([.telnyx])
        var shape = SimulatedCarrier.Shape.telnyx
        shape.start = shape.start.replacing("PCMU", with: "G722")
        let line = SimulatedCarrier(world.server, shape, path: "/telnyx")
        #expect(line.client.closeCode == 1003)
        #expect(world.server.metrics.sessions.load(ordering: .relaxed) == 0)
    }

    @Test func badMessagesAreCountedAndDoNotEndTheCall() throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server)
        for bad in ["", "{", "[]", #"{"event":"media","media":{"payload":"?"}}"#] {
            line.client.send(bad)
        }
        line.client.send(.binary, [1, 2, 3])
        // A second start changes nothing.
        line.client.send(SimulatedCarrier.Shape.twilio.start)
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.server.metrics.total(of: .callMessagesRefused) == 4)
        #expect(line.client.closeCode == nil)
        #expect(world.server.metrics.total(of: .sessionsStarted) == 1)
    }

    /// Messages that break a rule, that a log has a line for, and marks of items that there are not.
    @Test(arguments: [
        "{", #"{"event":"error","streamSid":"MZ1"}"#,
        #"{"event":"mark","mark":{"name":"item_none:20:0"}}"#,
    ])
    func aFloodOfBadMessagesEndsTheCall(bad: String) throws {
        let world = try CallWorld()
        let line = SimulatedCarrier(world.server)
        for _ in 0..<3_000 { line.client.send(bad) }
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.server.metrics.total(of: .floodCloses) == 1)
        #expect(world.server.metrics.total(of: .sessionsOpen) == 0)
    }
}
