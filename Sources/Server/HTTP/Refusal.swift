// The reasons for which a well-formed connection or request is refused: the metric, the line in the
// log, and the answer to the client. Admission, AddressLimits and Authenticator decide.
//
// Invariant: a flood of refusals makes a bounded number of log lines.

import Codec
import Logging
import Session

/// A limit or a rule, set by the operator, for which a connection or a request is refused.
package enum RefusalReason: Int, CaseIterable, Error, Sendable {
    /// `max-connections`.
    case maxConnections
    /// `max-connections-per-address`.
    case addressConnections
    /// `handshakes-per-second-per-address`.
    case addressRate
    /// `handshakes-per-second`.
    case totalRate
    /// The process has no descriptor left.
    case descriptors
    /// A proxy's connection does not begin with the header that it must begin with.
    case proxyHeader
    /// A Host that this server does not have (`allowed-hosts`).
    case host
    /// A page of another origin asks for a WebSocket (`allowed-origins`).
    case origin
    /// No credential where one is needed.
    case noCredential
    /// A text that cannot be a credential.
    case malformedCredential
    /// A credential that the server does not know.
    case unknownCredential
    /// A token that has expired.
    case expiredCredential
    /// A token for another server, of another issuer, not valid yet, or valid for ever.
    case wrongClaims
    /// A good credential that does not open this path.
    case insufficientCredential
    /// The signature of a carrier is wrong, or missing where its token is configured.
    case callSignature
    /// `auth-failures-per-minute-per-address`.
    case failedAttempts
    /// A model that the credential does not name.
    case model
    /// An agent that the credential does not name.
    case agent
    /// An agent that is not described, or not usable.
    case unknownAgent
    /// `max-sessions-per-key`, or the credential's own limit.
    case credentialSessions
    /// `sessions` of an agent.
    case agentSessions
    /// `max-client-secrets`.
    case clientSecrets
    /// `quotas-per-key`, `quotas-per-address` or the credential's own; ShardQuotas answers.
    case quota

    /// The metric that counts it.
    var metric: ShardMetric { record.metric }

    /// The option to change, for the log; or the fault of a credential.
    var option: String { record.option }

    private var record: (metric: ShardMetric, option: String) {
        switch self {
        case .maxConnections: (.connectionsRefused, "max-connections")
        case .addressConnections: (.refusedAddressConnections, "max-connections-per-address")
        case .addressRate: (.refusedAddressRate, "handshakes-per-second-per-address")
        case .totalRate: (.refusedTotalRate, "handshakes-per-second")
        case .descriptors: (.refusedDescriptors, "open files")
        case .proxyHeader: (.refusedProxyHeader, "proxy-protocol")
        case .host: (.refusedHost, "allowed-hosts")
        case .origin: (.refusedOrigin, "allowed-origins")
        case .noCredential: (.authMissing, "no credential")
        case .malformedCredential: (.authMalformed, "malformed credential")
        case .unknownCredential: (.authUnknown, "unknown credential")
        case .expiredCredential: (.authExpired, "expired token")
        case .wrongClaims: (.authClaims, "jwt-audience, jwt-issuer or times of a token")
        case .insufficientCredential: (.authInsufficient, "insufficient credential")
        case .callSignature:
            (
                .authSignature,
                "the carrier's signature is missing or of another URL or token: compare "
                    + "telephone-url (without it, the Host) with the URL that the carrier dials, "
                    + "its host, port and path, and the token with that of the carrier's account"
            )
        case .failedAttempts: (.authLimited, "auth-failures-per-minute-per-address")
        case .model: (.refusedModel, "models of a credential")
        case .agent: (.refusedAgent, "agents of a credential")
        case .unknownAgent: (.refusedAgent, "agents has none of that name")
        case .credentialSessions: (.refusedCredentialSessions, "max-sessions-per-key")
        case .agentSessions: (.refusedAgentSessions, "sessions of an agent")
        case .clientSecrets: (.refusedClientSecrets, "max-client-secrets")
        case .quota: (.refusedQuota, "quotas")
        }
    }

    /// The answer to the client.
    func failure(retryAfterSeconds: Int) -> RouteFailure {
        let retry = [(name: "Retry-After", value: "\(retryAfterSeconds)")]
        switch self {
        case .maxConnections:
            return .unavailable(
                "server_full", "The server has no place for another connection.",
                retryAfterSeconds: retryAfterSeconds)
        case .totalRate, .descriptors:
            return .unavailable(
                "server_overloaded", "The server takes no more connections now.",
                retryAfterSeconds: retryAfterSeconds)
        case .addressConnections:
            return RouteFailure(
                status: 429, code: "too_many_connections",
                message: "Your address has too many connections.", headers: retry)
        case .addressRate:
            return RouteFailure(
                status: 429, code: "rate_limit_exceeded",
                message: "Your address connects too often.", headers: retry)
        case .proxyHeader:
            return RouteFailure(
                status: 400, code: "proxy_header_required",
                message: "This proxy must begin with a header of the PROXY protocol, version 2.")
        case .host:
            return RouteFailure(
                status: 421, code: "unknown_host",
                message: "This server does not answer to that Host; see its allowed-hosts.")
        case .origin:
            return RouteFailure(
                status: 403, code: "origin_not_allowed",
                message: "Pages of that Origin may not connect; see the server's allowed-origins.")
        case .noCredential, .malformedCredential, .unknownCredential, .expiredCredential,
            .wrongClaims, .insufficientCredential, .callSignature, .failedAttempts, .model,
            .agent, .unknownAgent, .credentialSessions, .agentSessions, .clientSecrets, .quota:
            return credentialFailure(retry: retry)
        }
    }
}

/// The answers to connections that are refused at accept, as bytes.
struct RefusalAnswers {
    private let bytes: [[UInt8]]

    init(retryAfterSeconds: Int) {
        bytes = RefusalReason.allCases.map { reason in
            var text = ByteWriter(capacity: 512)
            reason.failure(retryAfterSeconds: retryAfterSeconds).response
                .write(answering: .get, keepAlive: false, into: &text)
            return text.copiedBytes
        }
    }

    /// Head and body.
    subscript(reason: RefusalReason) -> [UInt8] { bytes[reason.rawValue] }
}

/// Logs refusals: the first one at once, then their number at most once per interval.
struct RefusalLog {
    /// Time between two lines about the same reason. 10 s.
    static var interval: Duration { .seconds(10) }

    private var lastLines = [Instant?](repeating: nil, count: RefusalReason.allCases.count)
    private var unsaid = [Int](repeating: 0, count: RefusalReason.allCases.count)

    /// Counts a refusal, and writes a line if one is due.
    /// - Parameters:
    ///   - peer: the address that was refused; a line names the latest.
    ///   - detail: more about it, made only for a line.
    mutating func note(
        _ reason: RefusalReason, of peer: NetworkAddress, at now: Instant, logger: Logger,
        detail: @autoclosure () -> Logger.Metadata = [:]
    ) {
        let index = reason.rawValue
        unsaid[index] += 1
        if let last = lastLines[index], now - last < RefusalLog.interval { return }
        lastLines[index] = now
        let facts: Logger.Metadata = [
            "reason": "\(reason.option)", "count": "\(unsaid[index])", "peer": "\(peer)",
        ]
        logger.notice("refused", metadata: facts.merging(detail()) { $1 })
        unsaid[index] = 0
    }
}
