// Admission on a shard's connections: the counting and logging of refusals, the header of a proxy,
// the verdict on a request, and the address that a connection counts for. Admission has the rules,
// AddressLimits the table.
//
// Invariant: a connection counts for at most one address, and is taken off it once: when the
// connection is removed, or when it counts for another address.

import Codec
import Session

/// The outcome of judging a request.
enum JudgedRequest {
    /// It is answered already: with a refusal, or as a preflight.
    case answered(HTTPResponse)
    /// The store is to be asked for the client secret with this hash; then it is judged again.
    case undecided(SHA256Digest)
    /// Its route's service answers it, for the caller.
    case admitted(Route, Caller)
}

extension Shard {
    /// Counts a refusal, and logs some of them (RefusalLog).
    func noteRefusal(
        _ reason: RefusalReason, of peer: NetworkAddress, host: String? = nil,
        origin: String? = nil, agent: String? = nil
    ) {
        metrics.add(reason.metric)
        journal.refusals.note(
            reason, of: peer, at: now, logger: logger,
            // The parsed values only: the text is the peer's.
            detail: [
                "host": host.map { .string(WebAuthority($0)?.description ?? "malformed") },
                "origin": origin.map { .string(WebOrigin($0)?.description ?? "opaque") },
                "agent": agent.map { .string($0) },
            ].compactMapValues(\.self))
    }

    // MARK: The proxy's header

    /// Bytes came on a connection that must begin with a proxy's header.
    func receiveProxyHeader(
        _ bytes: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        guard connection.pending.isEmpty else {
            connection.pending.append(contentsOf: bytes)
            var pending: [UInt8] = []
            swap(&pending, &connection.pending)
            pending.withUnsafeMutableBytes { parseProxyHeader($0, on: connection) }
            return
        }
        parseProxyHeader(bytes, on: connection)
    }

    private func parseProxyHeader(
        _ bytes: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        guard let http = connection.http else { return }
        do {
            guard let (header, consumed) = try ProxyHeader.parse(UnsafeRawBufferPointer(bytes))
            else {
                connection.pending = Array(bytes)
                return
            }
            connection.state = .http
            if let source = header.source {
                http.client = source
                if let reason = count(connection, for: source) {
                    noteRefusal(reason, of: source)
                    return turnAway(connection, reason)
                }
            }
            guard secure(connection) else { return close(connection) }
            let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[consumed...])
            if !rest.isEmpty { take(rest, from: connection) }
        } catch {
            noteRefusal(.proxyHeader, of: http.client)
            logger.debug(
                "bad proxy header", metadata: ["peer": "\(http.client)", "rule": "\(error)"])
            turnAway(connection, .proxyHeader)
        }
    }

    /// Refuses a proxy's connection: without an answer where TLS would come next, as the client
    /// could not read it.
    private func turnAway(_ connection: Connection, _ reason: RefusalReason) {
        guard fixtures.wire == nil else { return close(connection) }
        let failure = reason.failure(retryAfterSeconds: configuration.admission.retryAfterSeconds)
        refuse(failure.response, on: connection)
    }

    // MARK: Requests

    /// Judges a request by its head, counts a refusal, and makes the answer where the verdict is
    /// one.
    /// - Parameter answer: the store's answer about its client secret, or nil where the store was
    ///   not asked.
    func judge(
        _ request: HTTPRequest, isBodyDue: Bool = false, after answer: SecretAnswer? = nil,
        on connection: Connection
    ) -> JudgedRequest {
        let source = source(of: request, on: connection)
        let verdict = RequestGate.judge(
            request, from: source, isBodyDue: isBodyDue, policy: fixtures.admission.policy,
            routes: fixtures.routes
        ) { route throws(RefusalReason) in
            try sender(of: request, from: source, on: route, after: answer)
        }
        switch verdict {
        case .refused(let reason):
            let origin = reason == .origin ? request.header("Origin") : nil
            var refusal = refusal(
                reason, of: source.client,
                host: reason == .host ? request.host : source.host, origin: origin)
            // The page that is refused by a route for applications may read the reason, and only that.
            if fixtures.routes.route(at: request.path)?.servesOtherOrigins == true {
                CrossOrigin.permitAll(in: &refusal.fields)
            }
            return .answered(refusal)
        case .failed(let failure, let route):
            return .answered(share(failure.response, with: request, of: route))
        case .preflight(let route):
            return .answered(share(route.preflight, with: request, of: route))
        case .denied(let reason, let route):
            let refusal = credentialRefusal(reason, on: connection)
            return .answered(share(refusal, with: request, of: route))
        case .undecided(let digest, let route):
            guard questions.secrets.isFull else { return .undecided(digest) }
            return .answered(
                share(RouteFailure.tooManySecrets.response, with: request, of: route))
        case .admitted(let route, let caller): return .admitted(route, caller)
        }
    }

    /// The answer with the fields of CORS, on a route that serves pages of other origins. The gate
    /// has allowed the origin of the page.
    func share(
        _ response: HTTPResponse, with request: HTTPRequest, of route: Route?
    ) -> HTTPResponse {
        guard let route, route.servesOtherOrigins else { return response }
        var response = response
        fixtures.admission.crossOrigin.permit(request, in: &response.fields)
        return response
    }

    /// The origin of a request: client, host and scheme, with the fields of trusted proxies.
    func source(of request: HTTPRequest, on connection: Connection) -> RequestSource {
        let peer = connection.http?.client ?? .unspecified
        var source = fixtures.admission.source(of: request, sentBy: peer)
        if connection.tls != nil { source.isSecure = true }
        return source
    }

    /// The refusal of a proxy's client that is over a limit, or nil. A WebSocket behind a proxy
    /// counts for that client from here on.
    func objection(toUpgrading request: HTTPRequest, on connection: Connection) -> HTTPResponse? {
        guard let http = connection.http else { return nil }
        let source = source(of: request, on: connection)
        guard source.client != http.client else { return nil }
        return count(connection, for: source.client).map { refusal($0, of: source.client) }
    }

    private func refusal(
        _ reason: RefusalReason, of peer: NetworkAddress, host: String? = nil,
        origin: String? = nil
    ) -> HTTPResponse {
        noteRefusal(reason, of: peer, host: host, origin: origin)
        return reason.failure(retryAfterSeconds: configuration.admission.retryAfterSeconds).response
    }

    // MARK: The address of a connection

    /// Counts the connection for an address, and no longer for the one before.
    /// - Returns: the limit that is reached; the connection then counts for no address.
    private func count(
        _ connection: Connection, for address: NetworkAddress
    ) -> RefusalReason? {
        releaseAddressPlace(of: connection)
        switch fixtures.admission.admit(address, at: now) {
        case .admitted(let place):
            connection.addressPlace = place
            return nil
        case .refused(let reason): return reason
        }
    }

    /// The connection counts for no address any more.
    func releaseAddressPlace(of connection: Connection) {
        fixtures.admission.limits.release(connection.addressPlace, at: now)
        connection.addressPlace = .none
    }

    /// An upgrade was refused: a proxy's connection counts for no address again.
    func releaseProxiedPlace(of connection: Connection) {
        guard let http = connection.http, fixtures.admission.trusts(http.client) else { return }
        releaseAddressPlace(of: connection)
    }
}
