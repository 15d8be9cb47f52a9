// Admission on a shard's connections: refusing those that are too many, a proxy's header before
// anything else, the checks of a request before it is answered, and who pays for a connection.
// The rules are Admission's, the table is AddressLimits'.
//
// Invariant: a charge is released once: when the connection is removed, or when another takes its
// place.

import Codec
import Session

/// What a shard does about a request.
enum JudgedRequest {
    /// It is answered at once: with a refusal, or as a preflight.
    case answered(HTTPResponse)
    /// Its route's service answers it, for the caller.
    case admitted(Route, Caller)
}

extension Shard {
    /// Counts a refusal; the log has a line of it now and then.
    func noteRefusal(
        _ reason: RefusalReason, of peer: NetworkAddress, host: String? = nil,
        origin: String? = nil
    ) {
        metrics.add(reason.metric)
        refusals.note(
            reason, of: peer, at: now, logger: logger,
            // Only what was understood: these are the peer's words.
            detail: [
                "host": host.map { .string(WebAuthority($0)?.description ?? "malformed") },
                "origin": origin.map { .string(WebOrigin($0)?.description ?? "opaque") },
            ].compactMapValues(\.self))
    }

    // MARK: The proxy's header

    /// Bytes came on a connection that must begin with a proxy's header.
    func receiveProxyHeader(
        _ bytes: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        guard connection.held.isEmpty else {
            connection.held.append(contentsOf: bytes)
            var held: [UInt8] = []
            swap(&held, &connection.held)
            held.withUnsafeMutableBytes { parseProxyHeader($0, on: connection) }
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
                connection.held = Array(bytes)
                return
            }
            connection.state = .http
            if let source = header.source {
                http.client = source
                if let reason = charge(source, for: connection) {
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

    /// Refuses a proxy's connection. Where TLS would come next, nobody could read a word of it.
    private func turnAway(_ connection: Connection, _ reason: RefusalReason) {
        guard wire == nil else { return close(connection) }
        let failure = reason.failure(retryAfterSeconds: configuration.retryAfterSeconds)
        refuse(failure.response, on: connection)
    }

    // MARK: Requests

    /// Judges a request, by its head: the rules of RequestGate, then its credential.
    func judge(_ request: HTTPRequest, on connection: Connection) -> JudgedRequest {
        let source = source(of: request, on: connection)
        switch RequestGate.verdict(
            on: request, from: source, policy: admission.policy, routes: routes)
        {
        case .refused(let reason):
            let origin = reason == .origin ? request.header("Origin") : nil
            return .answered(
                refusal(
                    reason, of: source.client,
                    host: reason == .host ? request.host : source.host, origin: origin))
        case .failed(let failure, let route):
            return .answered(share(failure.response, with: request, of: route))
        case .preflight(let route):
            return .answered(share(CrossOrigin.preflight(of: route), with: request, of: route))
        case .passed(let route):
            do {
                return .admitted(
                    route, try authenticate(request, for: route.access, on: connection))
            } catch {
                let refusal = credentialRefusal(error, on: connection)
                return .answered(share(refusal, with: request, of: route))
            }
        }
    }

    /// The answer with the fields of CORS, on a route that serves pages of other origins: a page
    /// whose request is judged so far has an allowed origin.
    func share(
        _ response: HTTPResponse, with request: HTTPRequest, of route: Route?
    ) -> HTTPResponse {
        guard let route, route.servesOtherOrigins else { return response }
        var response = response
        admission.crossOrigin.permit(request, in: &response.fields)
        return response
    }

    /// Whose request it is, and for which host and scheme, as far as a trusted proxy tells.
    func source(of request: HTTPRequest, on connection: Connection) -> RequestSource {
        let peer = connection.http?.client ?? .unspecified
        var source = admission.source(of: request, sentBy: peer)
        if connection.tls != nil { source.isSecure = true }
        return source
    }

    /// The answer to a proxy's client that is over a limit; or nil. Behind a proxy a WebSocket's
    /// connection is charged to that client from here on.
    func objection(toUpgrading request: HTTPRequest, on connection: Connection) -> HTTPResponse? {
        guard let http = connection.http else { return nil }
        let source = source(of: request, on: connection)
        guard source.client != http.client else { return nil }
        return charge(source.client, for: connection).map { refusal($0, of: source.client) }
    }

    private func refusal(
        _ reason: RefusalReason, of peer: NetworkAddress, host: String? = nil,
        origin: String? = nil
    ) -> HTTPResponse {
        noteRefusal(reason, of: peer, host: host, origin: origin)
        return reason.failure(retryAfterSeconds: configuration.retryAfterSeconds).response
    }

    // MARK: Who pays

    /// Charges an address for the connection, in place of whoever it was charged to.
    /// - Returns: the limit in the way; then nobody is charged.
    private func charge(
        _ address: NetworkAddress, for connection: Connection
    ) -> RefusalReason? {
        releaseCharge(of: connection)
        switch admission.admit(address, at: now) {
        case .admitted(let charge):
            connection.charge = charge
            return nil
        case .refused(let reason): return reason
        }
    }

    /// Nobody is charged for the connection any more.
    func releaseCharge(of connection: Connection) {
        admission.limits.release(connection.charge, at: now)
        connection.charge = .none
    }

    /// An upgrade came to nothing: a proxy's connection is nobody's again.
    func releaseProxiedCharge(of connection: Connection) {
        guard let http = connection.http, admission.trusts(http.client) else { return }
        releaseCharge(of: connection)
    }
}
