// Whom a shard lets in, as values: which peers are proxies to be believed, what they say of their
// clients, whose connections are counted, which hosts and origins are served. What is done about
// the answers is ShardAdmission's.

import Codec
import Session

/// Whether connections begin with a header of the PROXY protocol.
public enum ProxyProtocolMode: String, CaseIterable, Sendable {
    /// Never.
    case off
    /// Those of trusted proxies must, with version 2.
    case required
}

/// Where a request really comes from, as far as proxies are to be believed.
struct RequestSource {
    /// The client, or the nearest thing to it.
    var client: NetworkAddress
    /// The Host that the client asked for.
    var host: String
    /// Whether the client is known to have come over TLS.
    var isSecure = false
}

/// The rules of one shard, made of its configuration.
struct Admission {
    /// The table that all shards share.
    let limits: AddressLimits
    let policy: RequestPolicy
    /// What pages of other origins are told.
    let crossOrigin: CrossOrigin
    /// The answers to connections that are refused as they come.
    let answers: RefusalAnswers
    private let trustedProxies: [AddressRange]
    private let unlimitedAddresses: [AddressRange]
    private let proxyProtocol: ProxyProtocolMode

    init(_ configuration: ServerConfiguration, limits: AddressLimits) {
        self.limits = limits
        policy = RequestPolicy(configuration)
        crossOrigin = CrossOrigin(configuration)
        answers = RefusalAnswers(retryAfterSeconds: configuration.retryAfterSeconds)
        trustedProxies = configuration.trustedProxies
        unlimitedAddresses = configuration.unlimitedAddresses
        proxyProtocol = configuration.proxyProtocol
    }

    /// Whether a peer is a proxy that may speak for others.
    func trusts(_ peer: NetworkAddress) -> Bool { trustedProxies.contains(peer) }

    /// Whether a peer's connection begins with a proxy's header.
    func expectsProxyHeader(from peer: NetworkAddress) -> Bool {
        proxyProtocol == .required && trusts(peer)
    }

    /// Whether limits per address are not for this one.
    func isUnlimited(_ address: NetworkAddress) -> Bool { unlimitedAddresses.contains(address) }

    /// Takes a place for a connection of this address. A trusted proxy's own is free: its clients
    /// are charged once they are known.
    func admit(_ address: NetworkAddress, at now: Instant) -> AddressLimits.Outcome {
        if trusts(address) || unlimitedAddresses.contains(address) { return .admitted(.none) }
        return limits.admit(address, at: now)
    }

    /// What a request says of its own origin, and a trusted proxy in front of it.
    /// - Parameter peer: who sent it, by its socket or by a proxy's header.
    func source(of request: HTTPRequest, sentBy peer: NetworkAddress) -> RequestSource {
        guard trusts(peer) else { return RequestSource(client: peer, host: request.host) }
        let client = ForwardedFor.client(in: request.fields, sentBy: peer, isTrusted: trusts)
        // The first in a list is the browser's own proxy. A client that invents these only
        // deceives itself: a page cannot set them on a WebSocket.
        let host = request.fields.elements(of: "X-Forwarded-Host").first ?? request.host
        let scheme = request.fields.elements(of: "X-Forwarded-Proto").first?.lowercased()
        return RequestSource(
            client: client, host: host, isSecure: scheme == "https" || scheme == "wss")
    }
}
