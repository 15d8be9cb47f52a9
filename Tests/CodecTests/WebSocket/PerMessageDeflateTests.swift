// Tables for the negotiation of permessage-deflate: valid and invalid headers (RFC 6455 §9.1),
// offers with the server's answers, and answers with the client's result (RFC 7692 §7.1).

import Codec
import Testing

@Suite struct PerMessageDeflateTests {
    private static func fields(_ lines: [String]) -> HTTPFields {
        var fields = HTTPFields()
        for line in lines { fields.append("Sec-WebSocket-Extensions", line) }
        return fields
    }

    // MARK: The grammar

    @Test(
        arguments: [
            ([], ""), ([""], ""), ([" , ,"], ""), (["a"], "a"), (["a, b", "c"], "a|b|c"),
            (["a;b;c=d , e"], "a;b;c=d|e"), ([" a ; b = \"c\" "], "a;b=c"),
            (["a; b=\"\\c\\d\""], "a;b=cd"), (["a;b;b=1"], "a;b;b=1"),
            (
                ["permessage-deflate; client_max_window_bits"],
                "permessage-deflate;client_max_window_bits"
            ),
        ] as [([String], String)])
    func readsListsOfExtensions(lines: [String], expected: String) throws {
        let extensions = try WebSocketExtension.list(in: Self.fields(lines))
        let texts = extensions.map { element in
            ([element.name]
                + element.parameters.map { $0.name + ($0.value.map { "=\($0)" } ?? "") })
                .joined(separator: ";")
        }
        #expect(texts.joined(separator: "|") == expected)
    }

    @Test(arguments: [
        "a b", "a;", "a;;b", ";", "=", "a;b=", "a;=c", "a;b=\"\"", "a;b=\"c", "a;b=\"c,d\"",
        "a;b=\"c d\"", "a;b=\"\\", "a;b=\"c\"d", "a;b=c d", "\"a\"", "a/b", "a;b=c=d", "é",
    ])
    func refusesWhatIsNoList(header: String) {
        #expect(throws: WebSocketHandshakeError.invalidExtensions) {
            try WebSocketExtension.list(in: Self.fields(["x", header]))
        }
    }

    // MARK: The server's side

    /// Terms of a server with or without contexts.
    private static func terms(keepsContexts: Bool) -> PerMessageDeflateTerms {
        PerMessageDeflateTerms(
            keepsContexts: keepsContexts, serverWindowBits: keepsContexts ? 12 : 15,
            clientWindowBits: 12)
    }

    /// An offer, the answer without contexts, and the answer with contexts; nil means declined.
    static let offers: [(offer: [String], alone: String?, kept: String?)] = [
        (["permessage-deflate"], "server, client", ""),
        (["permessage-deflate; server_no_context_takeover"], "server, client", "server"),
        (["permessage-deflate; client_no_context_takeover"], "server, client", "client"),
        (
            ["permessage-deflate; client_no_context_takeover; server_no_context_takeover"],
            "server, client", "server, client"
        ),
        // The server's window is at most the requested size, and is named exactly if it is
        // requested.
        (["permessage-deflate; server_max_window_bits=15"], "server, client, s15", "s12"),
        (["permessage-deflate; server_max_window_bits=10"], "server, client, s10", "s10"),
        (["permessage-deflate; server_max_window_bits=\"10\""], "server, client, s10", "s10"),
        (["permessage-deflate; server_max_window_bits=9"], "server, client, s9", "s9"),
        // zlib has no raw window of 8 bits, so the offer is declined.
        (["permessage-deflate; server_max_window_bits=8"], nil, nil),
        // The client's window is limited only if that saves memory of a context, and if it may be
        // limited.
        (["permessage-deflate; client_max_window_bits"], "server, client", "c12"),
        (["permessage-deflate; client_max_window_bits=15"], "server, client", "c12"),
        (["permessage-deflate; client_max_window_bits=10"], "server, client", ""),
        (["permessage-deflate; client_max_window_bits=8"], "server, client", ""),
        (
            ["permessage-deflate; client_max_window_bits; client_no_context_takeover"],
            "server, client", "client"
        ),
        // Offers that must be declined.
        (["permessage-deflate; server_max_window_bits"], nil, nil),
        (["permessage-deflate; server_max_window_bits=7"], nil, nil),
        (["permessage-deflate; server_max_window_bits=16"], nil, nil),
        (["permessage-deflate; server_max_window_bits=010"], nil, nil),
        (["permessage-deflate; server_max_window_bits=+9"], nil, nil),
        (["permessage-deflate; server_max_window_bits=1e1"], nil, nil),
        (["permessage-deflate; server_max_window_bits=99999999999999999999"], nil, nil),
        (["permessage-deflate; client_max_window_bits=7"], nil, nil),
        (["permessage-deflate; client_max_window_bits=08"], nil, nil),
        (["permessage-deflate; server_no_context_takeover=1"], nil, nil),
        (["permessage-deflate; client_no_context_takeover=true"], nil, nil),
        (["permessage-deflate; unknown"], nil, nil),
        (["permessage-deflate; Server_No_Context_Takeover"], nil, nil),
        (
            ["permessage-deflate; server_max_window_bits=10; server_max_window_bits=10"], nil, nil
        ),
        (["permessage-deflate; client_max_window_bits; client_max_window_bits=9"], nil, nil),
        (["x-webkit-deflate-frame"], nil, nil),
        ([], nil, nil),
        // Several offers, on one line or on several: the first acceptable one is accepted.
        (
            [
                "permessage-deflate; server_max_window_bits=8, permessage-deflate; unknown",
                "other; a=1", "permessage-deflate; server_max_window_bits=11, permessage-deflate",
            ], "server, client, s11", "s11"
        ),
        (
            ["permessage-deflate, permessage-deflate; server_max_window_bits=9"],
            "server, client", ""
        ),
    ]

    @Test(arguments: offers)
    func answersAnOffer(offer: [String], alone: String?, kept: String?) throws {
        let extensions = try WebSocketExtension.list(in: Self.fields(offer))
        for (keepsContexts, expected) in [(false, alone), (true, kept)] {
            let agreement = PerMessageDeflateOffer.accept(
                from: extensions, on: Self.terms(keepsContexts: keepsContexts))
            #expect(agreement?.headerValue == expected.map(Self.header))
            #expect(agreement.map { $0.serverWindowBits <= (keepsContexts ? 12 : 15) } ?? true)
        }
    }

    /// The full answer for an abbreviation in the table.
    private static func header(_ short: String) -> String {
        let words = short.split(separator: ", ").map { word in
            switch (word.first, Int(word.dropFirst())) {
            case ("s", let bits?): "; server_max_window_bits=\(bits)"
            case ("c", let bits?): "; client_max_window_bits=\(bits)"
            default: "; \(word)_no_context_takeover"
            }
        }
        return "permessage-deflate" + words.joined()
    }

    @Test func anAgreementSaysWhatBothSidesKeepTo() throws {
        let header = "permessage-deflate; client_max_window_bits=11; server_max_window_bits=13"
        let offers = try WebSocketExtension.list(in: Self.fields([header]))
        let kept = try #require(
            PerMessageDeflateOffer.accept(from: offers, on: Self.terms(keepsContexts: true)))
        #expect(kept.serverKeepsContext && kept.clientKeepsContext)
        #expect(kept.serverWindowBits == 12 && kept.clientWindowBits == 11)
        let alone = try #require(
            PerMessageDeflateOffer.accept(from: offers, on: Self.terms(keepsContexts: false)))
        #expect(!alone.serverKeepsContext && !alone.clientKeepsContext)
        #expect(alone.serverWindowBits == 13 && alone.clientWindowBits == 11)
    }

    // MARK: The client's side

    private static let plain = PerMessageDeflateOffer()
    private static let modest: PerMessageDeflateOffer = {
        var offer = PerMessageDeflateOffer()
        offer.serverForgets = true
        offer.serverWindowBits = 12
        offer.letsLimitClientWindow = true
        return offer
    }()

    @Test func offersAreWrittenAndReadAgain() throws {
        var offer = Self.modest
        #expect(
            offer.headerValue == "permessage-deflate; server_no_context_takeover; "
                + "server_max_window_bits=12; client_max_window_bits")
        offer.clientForgets = true
        offer.clientWindowBits = 10
        for offer in [offer, Self.modest, Self.plain] {
            let element = try #require(
                WebSocketExtension.list(in: Self.fields([offer.headerValue])).first)
            #expect(PerMessageDeflateOffer(element) == offer)
        }
    }

    @Test(arguments: [
        ("permessage-deflate", true, true, 15, 15),
        ("permessage-deflate; server_no_context_takeover", false, true, 15, 15),
        ("permessage-deflate; client_no_context_takeover", true, false, 15, 15),
        ("permessage-deflate; server_max_window_bits=8", true, true, 8, 15),
    ])
    func acceptsAValidAnswer(answer: String, server: Bool, client: Bool, bits: Int, ours: Int)
        throws
    {
        let agreement = try #require(
            try Self.plain.agreement(in: Self.fields([answer])))
        #expect(agreement.serverKeepsContext == server && agreement.clientKeepsContext == client)
        #expect(agreement.serverWindowBits == bits && agreement.clientWindowBits == ours)
    }

    @Test func usesAWindowThatTheServerLimited() throws {
        let answer =
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=11; "
            + "client_max_window_bits=9"
        let agreement = try #require(try Self.modest.agreement(in: Self.fields([answer])))
        #expect(agreement.serverWindowBits == 11 && agreement.clientWindowBits == 9)
    }

    @Test func usesNoCompressionIfTheServerDeclines() throws {
        #expect(try Self.plain.agreement(in: HTTPFields()) == nil)
    }

    @Test(arguments: [
        "other", "permessage-deflate, permessage-deflate", "permessage-deflate; unknown",
        "permessage-deflate; client_max_window_bits=10",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
    ])
    func refusesAnAnswerToSomethingElse(answer: String) {
        #expect(throws: WebSocketHandshakeError.unofferedExtension) {
            try Self.plain.agreement(in: Self.fields([answer]))
        }
    }

    @Test(arguments: [
        "permessage-deflate", "permessage-deflate; server_max_window_bits=12",
        "permessage-deflate; server_no_context_takeover",
        "permessage-deflate; server_no_context_takeover; server_max_window_bits=13",
        "permessage-deflate; server_no_context_takeover; server_max_window_bits=12; "
            + "client_max_window_bits",
        // The client's zlib cannot use the window that this answer requires.
        "permessage-deflate; server_no_context_takeover; server_max_window_bits=12; "
            + "client_max_window_bits=8",
    ])
    func refusesAnAnswerThatGrantsLessThanItDemanded(answer: String) {
        #expect(throws: WebSocketHandshakeError.unofferedExtension) {
            try Self.modest.agreement(in: Self.fields([answer]))
        }
    }
}
