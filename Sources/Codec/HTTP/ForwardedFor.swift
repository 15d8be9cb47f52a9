// X-Forwarded-For: the addresses that a request passed through, each proxy adding whom it heard it
// from at the right end. Everything left of the last proxy that is trusted may be invented by the
// client. No standard; the field as HAProxy, nginx and the clouds write it.

/// Finds the client in a request's X-Forwarded-For.
public enum ForwardedFor {
    /// The rightmost address that is not itself a trusted proxy.
    /// - Parameters:
    ///   - peer: who sent the request: a trusted proxy.
    ///   - isTrusted: whether a proxy's own additions are to be believed.
    /// - Returns: the client; if every address is a trusted proxy's, the leftmost; `peer` if there
    ///   is none. What is no address ends the search: nobody vouches for what lies beyond it.
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

    /// An address, also with a port and in brackets, as some proxies write it.
    private static func address(in element: String) -> NetworkAddress? {
        if let address = NetworkAddress(element) { return address }
        guard case .address(let address) = WebAuthority(element)?.host else { return nil }
        return address
    }
}
