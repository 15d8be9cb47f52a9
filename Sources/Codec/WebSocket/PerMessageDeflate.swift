// The negotiation of permessage-deflate (RFC 7692 §7.1): parses and checks offers, accepts one on
// the server's terms, writes the answer, and does the client's side of both. All are pure values.
// MessageDeflater compresses, MessageInflater decompresses; Server decides how much memory a
// connection may use.
//
//   parameter                   in an offer                        in an answer
//   server_no_context_takeover  the server must keep no context    the server keeps no context
//   client_no_context_takeover  the client will keep no context    the client must keep no context
//   server_max_window_bits=n    the server's window must be ≤ n    the server's window is n
//   client_max_window_bits[=n]  the server may limit the client's  the client's window must be ≤ n
//                               window, which is ≤ n anyway
//
// Invariant: neither side's window is ever larger than agreed. zlib cannot compress raw data with a
// window of 8 bits, so an offer that requires this of the server is declined.

/// Name and bounds of the extension.
public enum PerMessageDeflate {
    /// The extension's token.
    public static let name = "permessage-deflate"
    /// Window sizes in bits that can be requested (RFC 7692 §7.1.2).
    public static let windowBits = 8...15
    /// Window sizes in bits with which zlib can compress raw data.
    public static let deflatableWindowBits = 9...15

    fileprivate static let serverForgets = "server_no_context_takeover"
    fileprivate static let clientForgets = "client_no_context_takeover"
    fileprivate static let serverWindow = "server_max_window_bits"
    fileprivate static let clientWindow = "client_max_window_bits"

    /// Parses a window size: one or two digits without leading zeros (RFC 7692 §7.1.2.1).
    fileprivate static func bits(_ value: String) -> Int? {
        guard !value.hasPrefix("0"), value.utf8.count <= 2, value.utf8.allSatisfy(\.isASCIIDigit),
            let bits = Int(value), windowBits.contains(bits)
        else { return nil }
        return bits
    }
}

/// Limits that the server sets for one connection.
public struct PerMessageDeflateTerms: Sendable {
    /// Whether messages may refer to earlier ones. Both sides then keep a context per connection.
    public var keepsContexts: Bool
    /// Largest window in bits with which the server compresses. 9…15.
    public var serverWindowBits: Int
    /// Limit for the client's window in bits, used where contexts are kept and the client accepts a
    /// limit. 8…15.
    public var clientWindowBits: Int

    /// Creates terms.
    /// - Precondition: the bits are within their ranges.
    public init(keepsContexts: Bool, serverWindowBits: Int, clientWindowBits: Int) {
        precondition(PerMessageDeflate.deflatableWindowBits.contains(serverWindowBits))
        precondition(PerMessageDeflate.windowBits.contains(clientWindowBits))
        self.keepsContexts = keepsContexts
        self.serverWindowBits = serverWindowBits
        self.clientWindowBits = clientWindowBits
    }
}

/// A valid offer.
public struct PerMessageDeflateOffer: Hashable, Sendable {
    /// Whether the server must keep no context.
    public var serverForgets = false
    /// Whether the client announces that it keeps no context.
    public var clientForgets = false
    /// Maximum bits of the server's window, if the client limits it.
    public var serverWindowBits: Int?
    /// Maximum bits of the client's window, if the client announces it.
    public var clientWindowBits: Int?
    /// Whether the server may limit the client's window.
    public var letsLimitClientWindow = false

    /// Creates the offer without parameters.
    public init() {}

    /// Parses an element of the header. Nil for another extension, or an offer that must be
    /// declined because it breaks a rule (RFC 7692 §7.1).
    public init?(_ element: WebSocketExtension) { self.init(element, isAnswer: false) }

    /// Parses the parameters, of which an answer has the same four as an offer. Nil for another
    /// extension's name, an unknown or repeated parameter, or a value that is not allowed there.
    private init?(_ element: WebSocketExtension, isAnswer: Bool) {
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
                letsLimitClientWindow = true
            case (PerMessageDeflate.clientWindow, nil) where !isAnswer:
                letsLimitClientWindow = true
            default: return nil
            }
        }
    }

    /// Accepts the first acceptable offer of a list; nil if there is none. The client lists offers
    /// in its order of preference (RFC 7692 §5).
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

    /// Accepts the offer; nil when zlib cannot fulfil it.
    public func accept(on terms: PerMessageDeflateTerms) -> PerMessageDeflateAgreement? {
        let serverBits = min(terms.serverWindowBits, serverWindowBits ?? terms.serverWindowBits)
        guard PerMessageDeflate.deflatableWindowBits.contains(serverBits) else { return nil }
        var agreement = PerMessageDeflateAgreement()
        agreement.serverKeepsContext = terms.keepsContexts && !serverForgets
        agreement.clientKeepsContext = terms.keepsContexts && !clientForgets
        agreement.serverWindowBits = serverBits
        agreement.namesServerWindow = serverWindowBits != nil
        agreement.clientWindowBits = clientWindowBits ?? PerMessageDeflate.windowBits.upperBound
        // Without a client context its window costs the server no memory: the shared context is as
        // large as any client's window.
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

    /// Parses a server's answer to this offer (RFC 7692 §7.1).
    /// - Returns: nil when the server does not use compression.
    /// - Throws: `.unofferedExtension` for an answer that does not fit this offer, and
    ///   `.invalidExtensions` for one that breaks the grammar. The connection must then fail.
    public func agreement(
        in answer: HTTPFields
    ) throws(WebSocketHandshakeError) -> PerMessageDeflateAgreement? {
        let elements = try WebSocketExtension.list(in: answer)
        guard let element = elements.first else { return nil }
        guard elements.count == 1,
            let parameters = PerMessageDeflateOffer(element, isAnswer: true),
            parameters.serverForgets || !serverForgets,
            letsLimitClientWindow || !parameters.letsLimitClientWindow
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
        agreement.namesClientWindow = parameters.letsLimitClientWindow
        // zlib would compress with 9 bits instead of 8, so such an answer cannot be honoured.
        guard PerMessageDeflate.deflatableWindowBits.contains(agreement.clientWindowBits) else {
            throw .unofferedExtension
        }
        return agreement
    }
}

/// The agreed parameters of one connection.
public struct PerMessageDeflateAgreement: Hashable, Sendable {
    /// Whether the server's messages may refer to earlier ones.
    public internal(set) var serverKeepsContext = true
    /// Whether the client's messages may refer to earlier ones.
    public internal(set) var clientKeepsContext = true
    /// Bits of the server's window. 9…15 where the server is ours.
    public internal(set) var serverWindowBits = 15
    /// Bits of the client's window. 8…15.
    public internal(set) var clientWindowBits = 15
    /// Whether the answer states the server's window, as it must if the offer did.
    var namesServerWindow = false
    /// Whether the answer limits the client's window, as it may if the offer allows it.
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
