// The rules of admission, as values: which peers are trusted proxies, the addresses of their
// clients, whose connections are counted, and the hosts and origins that are served. ShardAdmission
// acts on the outcomes.

import Codec
import Session

/// The origin of a request, with the fields of trusted proxies taken into account.
struct RequestSource {
    /// The client's address, or that of the nearest hop to it that is known.
    var client: NetworkAddress
    /// The Host in the client's request.
    var host: String
    /// Whether the client is known to use TLS.
    var isSecure = false
}

/// The rules of one shard, made of its settings.
struct Admission {
    /// The table that all shards share.
    let limits: AddressLimits
    let policy: RequestPolicy
    /// The fields of CORS.
    let crossOrigin: CrossOrigin
    /// The answers to connections that are refused at accept.
    let answers: RefusalAnswers
    private let trustedProxies: [AddressRange]
    private let unlimitedAddresses: [AddressRange]
    private let proxyProtocol: ProxyProtocolMode

    init(_ settings: AdmissionSettings, host: String, limits: AddressLimits) {
        self.limits = limits
        policy = RequestPolicy(
            host: host, hosts: settings.allowedHosts, origins: settings.allowedOrigins)
        crossOrigin = CrossOrigin(origins: settings.allowedOrigins)
        answers = RefusalAnswers(retryAfterSeconds: settings.retryAfterSeconds)
        trustedProxies = settings.trustedProxies
        unlimitedAddresses = settings.unlimitedAddresses
        proxyProtocol = settings.proxyProtocol
    }

    /// Whether a peer is a trusted proxy.
    func trusts(_ peer: NetworkAddress) -> Bool { trustedProxies.contains(peer) }

    /// Whether a peer's connection begins with a proxy's header.
    func expectsProxyHeader(from peer: NetworkAddress) -> Bool {
        proxyProtocol == .required && trusts(peer)
    }

    /// Whether an address is exempt from limits per address.
    func isUnlimited(_ address: NetworkAddress) -> Bool { unlimitedAddresses.contains(address) }

    /// Counts a connection of this address. A trusted proxy's own address is not counted: its
    /// client is, once it is known.
    func admit(_ address: NetworkAddress, at now: Instant) -> AddressLimits.Outcome {
        if trusts(address) || unlimitedAddresses.contains(address) { return .admitted(.none) }
        return limits.admit(address, at: now)
    }

    /// The origin of a request, by its own fields and those of a trusted proxy.
    /// - Parameter peer: the sender's address, from its socket or from a proxy's header.
    func source(of request: HTTPRequest, sentBy peer: NetworkAddress) -> RequestSource {
        guard trusts(peer) else { return RequestSource(client: peer, host: request.host) }
        let client = ForwardedFor.client(in: request.fields, sentBy: peer, isTrusted: trusts)
        // The first of a list is the value that the first proxy saw. A client that invents them
        // only deceives itself: a page cannot set them on a WebSocket.
        let host = request.fields.elements(of: "X-Forwarded-Host").first ?? request.host
        let scheme = request.fields.elements(of: "X-Forwarded-Proto").first?.lowercased()
        return RequestSource(
            client: client, host: host, isSecure: scheme == "https" || scheme == "wss")
    }
}
