// The answers to a credential that is missing or not good enough, with the words and codes of
// OpenAI's API, which its clients know. Refusal counts and logs them.
//
// An answer never contains a part of the credential, nor why a signature was not accepted: that
// would only help an attacker.

extension RefusalReason {
    /// Whether a wrong credential was presented, as by a client that guesses.
    var isFailedAttempt: Bool {
        switch self {
        case .malformedCredential, .unknownCredential, .expiredCredential, .wrongClaims: true
        default: false
        }
    }

    /// The answers to credentials. `retry` is the field Retry-After.
    func credentialFailure(retry: [(name: String, value: String)]) -> RouteFailure {
        switch self {
        case .noCredential:
            unauthorized(
                "You didn't provide an API key. Send it in the field Authorization, as a Bearer "
                    + "token, or, from a browser, in the subprotocol openai-insecure-api-key.KEY.",
                challenge: "Bearer realm=\"parley\"")
        case .expiredCredential:
            unauthorized(
                "The token has expired.",
                challenge: Self.invalidToken("The token has expired"))
        case .wrongClaims:
            unauthorized(
                "The token is not meant for this server, or not for this time.",
                challenge: Self.invalidToken("The token is not for this server or time"))
        case .insufficientCredential:
            RouteFailure(
                status: 403, code: "insufficient_permissions",
                message: "This credential does not open that path.")
        case .callSignature:
            RouteFailure(
                status: 403, code: "invalid_signature",
                message: "The carrier's signature is missing, or is not that of this URL.")
        case .model:
            RouteFailure(
                status: 403, code: "model_not_found",
                message: "This credential does not give access to that model.")
        case .agent:
            RouteFailure(
                status: 403, code: "agent_not_allowed",
                message: "This credential does not give access to that agent.")
        case .unknownAgent:
            RouteFailure(
                status: 404, code: "agent_not_found",
                message: "This server has no agent of that name.")
        case .failedAttempts:
            RouteFailure(
                status: 429, code: "rate_limit_exceeded",
                message: "Too many wrong credentials came from your address.", headers: retry)
        case .credentialSessions:
            RouteFailure(
                status: 429, code: "rate_limit_exceeded",
                message: "This credential has all the sessions that it may have.", headers: retry)
        case .agentSessions:
            RouteFailure(
                status: 429, code: "rate_limit_exceeded",
                message: "This agent has all the sessions that it may have.", headers: retry)
        case .quota:
            RouteFailure(
                status: 429, code: "rate_limit_exceeded",
                message: "A quota of this credential or address is used up.", headers: retry)
        case .clientSecrets:
            RouteFailure(
                status: 429, code: "rate_limit_exceeded",
                message: "This credential has its share of the client secrets.", headers: retry)
        default:
            unauthorized(
                "Incorrect API key or token provided.",
                challenge: Self.invalidToken("The key or token is not valid"))
        }
    }

    /// The challenge of RFC 6750 §3.1.
    private static func invalidToken(_ description: String) -> String {
        "Bearer realm=\"parley\", error=\"invalid_token\", error_description=\"\(description)\""
    }

    private func unauthorized(_ message: String, challenge: String) -> RouteFailure {
        RouteFailure(
            status: 401, code: "invalid_api_key", message: message,
            headers: [("WWW-Authenticate", challenge)])
    }
}
