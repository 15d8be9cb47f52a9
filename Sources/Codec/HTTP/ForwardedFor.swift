// X-Forwarded-For: the addresses that a request passed through. Each proxy appends the address of
// its own peer at the right end. Everything to the left of the last trusted proxy may be invented
// by the client. There is no standard; this is the field as HAProxy, nginx and the cloud providers
// write it.

/// Finds the client in a request's X-Forwarded-For.
public enum ForwardedFor {
    /// The rightmost address that is not itself a trusted proxy.
    /// - Parameters:
    ///   - peer: address that sent the request: a trusted proxy.
    ///   - isTrusted: whether an address is a trusted proxy.
    /// - Returns: the client; the leftmost address if all are trusted proxies; `peer` if there is
    ///   none. The search ends at text that is not an address, because no proxy vouches for what
    ///   lies to the left of it.
    public static func client(
        in fields: HTTPFields, sentBy peer: NetworkAddress,
        isTrusted: (NetworkAddress) -> Bool
    ) -> NetworkAddress {
        var client = peer
        for element in fields.elements(of: "X-Forwarded-For").reversed() {
            guard isTrusted(client), let address = address(in: element) else { break }
            client = address
        }
        return client
    }

    /// An address, also in brackets or with a port, as some proxies write it.
    private static func address(in element: String) -> NetworkAddress? {
        if let address = NetworkAddress(element) { return address }
        guard case .address(let address) = WebAuthority(element)?.host else { return nil }
        return address
    }
}
