// The negotiation of permessage-deflate (RFC 7692 §7.1): offers read and checked, one of them
// accepted on terms, the answer written, and the client's side of both. Pure values; compressing is
// in MessageDeflater, decompressing in MessageInflater, and who can afford what is Server's policy.
//
//   parameter                   in an offer                        in an answer
//   server_no_context_takeover  the server must forget             the server forgets
//   client_no_context_takeover  the client is going to forget      the client must forget
//   server_max_window_bits=n    the server's window must be ≤ n    the server's window is n
//   client_max_window_bits[=n]  the server may limit the client's  the client's window must be ≤ n
//                               window, which is ≤ n anyway
//
// Invariant: nobody's window is ever larger than what was agreed. zlib cannot compress raw data
// with a window of 8 bits, so an offer that demands that of the server is declined.

/// The names and bounds of the extension.
public enum PerMessageDeflate {
    /// The extension's token.
    public static let name = "permessage-deflate"
    /// Bits of a window that can be asked for (RFC 7692 §7.1.2).
    public static let windowBits = 8...15
    /// Bits of a window that zlib compresses raw data with.
    public static let deflatableWindowBits = 9...15

    fileprivate static let serverForgets = "server_no_context_takeover"
    fileprivate static let clientForgets = "client_no_context_takeover"
    fileprivate static let serverWindow = "server_max_window_bits"
    fileprivate static let clientWindow = "client_max_window_bits"

    /// A window's bits: one or two digits without leading zeros (RFC 7692 §7.1.2.1).
    fileprivate static func bits(_ value: String) -> Int? {
        guard !value.hasPrefix("0"), value.utf8.count <= 2,
            value.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let bits = Int(value), windowBits.contains(bits)
        else { return nil }
        return bits
    }

    /// The four parameters of an offer or of an answer.
    fileprivate struct Parameters {
        var serverForgets = false
        var clientForgets = false
        var serverWindowBits: Int?
        var clientWindowBits: Int?
        /// Whether `client_max_window_bits` is there, with a value or without.
        var namesClientWindow = false

        /// Nil for another extension's name, an unknown parameter, a duplicate, or a value that
        /// does not belong there (RFC 7692 §7.1).
        init?(_ element: WebSocketExtension, isAnswer: Bool) {
            guard element.name == PerMessageDeflate.name else { return nil }
            var seen: Set<String> = []
            for parameter in element.parameters {
                guard seen.insert(parameter.name).inserted else { return nil }
                switch (parameter.name, parameter.value) {
                case (PerMessageDeflate.serverForgets, nil): serverForgets = true
                case (PerMessageDeflate.clientForgets, nil): clientForgets = true
                case (PerMessageDeflate.serverWindow, let value?):
                    guard let bits = PerMessageDeflate.bits(value) else { return nil }
                    serverWindowBits = bits
                case (PerMessageDeflate.clientWindow, let value?):
                    guard let bits = PerMessageDeflate.bits(value) else { return nil }
                    clientWindowBits = bits
                    namesClientWindow = true
                case (PerMessageDeflate.clientWindow, nil) where !isAnswer:
                    namesClientWindow = true
                default: return nil
                }
            }
        }
    }
}

/// What the server can afford for one connection.
public struct PerMessageDeflateTerms: Sendable {
    /// Whether each side may refer to earlier messages: then both keep a context per connection.
    public var keepsContexts: Bool
    /// Bits of the largest window that the server compresses with. 9…15.
    public var serverWindowBits: Int
    /// Bits that the client's window is limited to where contexts are kept and the client lets
    /// itself be limited. 8…15.
    public var clientWindowBits: Int

    /// Collects terms.
    /// - Precondition: the bits are within their ranges.
    public init(keepsContexts: Bool, serverWindowBits: Int, clientWindowBits: Int) {
        precondition(PerMessageDeflate.deflatableWindowBits.contains(serverWindowBits))
        precondition(PerMessageDeflate.windowBits.contains(clientWindowBits))
        self.keepsContexts = keepsContexts
        self.serverWindowBits = serverWindowBits
        self.clientWindowBits = clientWindowBits
    }
}

/// An offer that keeps the rules.
public struct PerMessageDeflateOffer: Hashable, Sendable {
    /// Whether the server must forget each message.
    public var serverForgets = false
    /// Whether the client says that it will forget each message.
    public var clientForgets = false
    /// Bits that the server's window must not exceed, if the client cares.
    public var serverWindowBits: Int?
    /// Bits that the client says its window does not exceed.
    public var clientWindowBits: Int?
    /// Whether the server may limit the client's window.
    public var letsLimitClientWindow = false

    /// The offer without parameters.
    public init() {}

    /// Reads an element of the header; nil if it is another extension's, or breaks a rule that
    /// makes it an offer to decline (RFC 7692 §7.1).
    public init?(_ element: WebSocketExtension) {
        guard let parameters = PerMessageDeflate.Parameters(element, isAnswer: false) else {
            return nil
        }
        serverForgets = parameters.serverForgets
        clientForgets = parameters.clientForgets
        serverWindowBits = parameters.serverWindowBits
        clientWindowBits = parameters.clientWindowBits
        letsLimitClientWindow = parameters.namesClientWindow
    }

    /// The first offer of a list that can be accepted, accepted (RFC 7692 §5: the client lists them
    /// in the order of its preference); nil if there is none.
    public static func accept(
        from offers: [WebSocketExtension], on terms: PerMessageDeflateTerms
    ) -> PerMessageDeflateAgreement? {
        for element in offers {
            if let offer = PerMessageDeflateOffer(element), let agreement = offer.accept(on: terms)
            {
                return agreement
            }
        }
        return nil
    }

    /// Accepts the offer; nil when zlib cannot do what it demands.
    public func accept(on terms: PerMessageDeflateTerms) -> PerMessageDeflateAgreement? {
        let serverBits = min(terms.serverWindowBits, serverWindowBits ?? terms.serverWindowBits)
        guard PerMessageDeflate.deflatableWindowBits.contains(serverBits) else { return nil }
        var agreement = PerMessageDeflateAgreement()
        agreement.serverKeepsContext = terms.keepsContexts && !serverForgets
        agreement.clientKeepsContext = terms.keepsContexts && !clientForgets
        agreement.serverWindowBits = serverBits
        agreement.namesServerWindow = serverWindowBits != nil
        agreement.clientWindowBits = clientWindowBits ?? PerMessageDeflate.windowBits.upperBound
        // A forgetful client's window costs the server nothing: a context that is shared is as
        // large as any client's.
        if agreement.clientKeepsContext, letsLimitClientWindow,
            terms.clientWindowBits < agreement.clientWindowBits
        {
            agreement.clientWindowBits = terms.clientWindowBits
            agreement.namesClientWindow = true
        }
        return agreement
    }

    /// The offer as an element of Sec-WebSocket-Extensions.
    public var headerValue: String {
        var text = PerMessageDeflate.name
        if serverForgets { text += "; \(PerMessageDeflate.serverForgets)" }
        if clientForgets { text += "; \(PerMessageDeflate.clientForgets)" }
        if let bits = serverWindowBits { text += "; \(PerMessageDeflate.serverWindow)=\(bits)" }
        if let bits = clientWindowBits {
            text += "; \(PerMessageDeflate.clientWindow)=\(bits)"
        } else if letsLimitClientWindow {
            text += "; \(PerMessageDeflate.clientWindow)"
        }
        return text
    }

    /// Reads a server's answer to this offer (RFC 7692 §7.1).
    /// - Returns: nil when the server does without compression.
    /// - Throws: `.unofferedExtension` for an answer that is not one to this offer, and
    ///   `.invalidExtensions` for one that is not in the grammar; the connection must then fail.
    public func agreement(
        in answer: HTTPFields
    ) throws(WebSocketHandshakeError) -> PerMessageDeflateAgreement? {
        let elements = try WebSocketExtension.list(in: answer)
        guard let element = elements.first else { return nil }
        guard elements.count == 1,
            let parameters = PerMessageDeflate.Parameters(element, isAnswer: true),
            parameters.serverForgets || !serverForgets,
            letsLimitClientWindow || !parameters.namesClientWindow
        else { throw .unofferedExtension }
        var agreement = PerMessageDeflateAgreement()
        agreement.serverKeepsContext = !parameters.serverForgets
        agreement.clientKeepsContext = !parameters.clientForgets && !clientForgets
        if let demanded = serverWindowBits {
            guard let bits = parameters.serverWindowBits, bits <= demanded else {
                throw .unofferedExtension
            }
        }
        agreement.serverWindowBits = parameters.serverWindowBits ?? agreement.serverWindowBits
        agreement.namesServerWindow = parameters.serverWindowBits != nil
        let widest = clientWindowBits ?? agreement.clientWindowBits
        agreement.clientWindowBits = min(widest, parameters.clientWindowBits ?? widest)
        agreement.namesClientWindow = parameters.namesClientWindow
        // What is compressed with a window of 8 bits must not be sent, as zlib would take 9.
        guard PerMessageDeflate.deflatableWindowBits.contains(agreement.clientWindowBits) else {
            throw .unofferedExtension
        }
        return agreement
    }
}

/// What both sides keep to on one connection.
public struct PerMessageDeflateAgreement: Hashable, Sendable {
    /// Whether the server's messages may refer to earlier ones.
    public internal(set) var serverKeepsContext = true
    /// Whether the client's messages may refer to earlier ones.
    public internal(set) var clientKeepsContext = true
    /// Bits of the server's window. 9…15 where the server is ours.
    public internal(set) var serverWindowBits = 15
    /// Bits of the client's window. 8…15.
    public internal(set) var clientWindowBits = 15
    /// Whether the answer names the server's window, which it must if the offer did.
    var namesServerWindow = false
    /// Whether the answer limits the client's window, which it may if the offer lets it.
    var namesClientWindow = false

    /// The value of Sec-WebSocket-Extensions that accepts the offer.
    public var headerValue: String {
        var text = PerMessageDeflate.name
        if !serverKeepsContext { text += "; \(PerMessageDeflate.serverForgets)" }
        if !clientKeepsContext { text += "; \(PerMessageDeflate.clientForgets)" }
        if namesServerWindow { text += "; \(PerMessageDeflate.serverWindow)=\(serverWindowBits)" }
        if namesClientWindow { text += "; \(PerMessageDeflate.clientWindow)=\(clientWindowBits)" }
        return text
    }
}
