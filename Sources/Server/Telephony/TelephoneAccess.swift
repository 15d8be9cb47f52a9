// Which carriers' connections are believed. A route of the telephone asks for the same credentials as
// the route of sessions, and takes three more forms, because a carrier cannot set every field:
//
//   signature   of the carrier, where its token is configured: then it must be there
//   {secret}    the last segment of the path, where one is configured; it opens nothing else
//   Basic       its password is a key or a token of the server's
//
// A server without keys of its own believes no other credential: any client could make one up.
//
// Not here: whether a key opens a route (RequestGate), and how a signature is made (CallSigning).

import Codec
import Session

/// The rules for connections of carriers.
struct TelephoneAccess {
    private let secret: SHA256Digest?
    private let url: String?
    private let twilioToken: String?
    private let plivoToken: String?

    init(_ settings: TelephoneSettings) {
        secret = settings.secret.map { SHA256Digest(of: $0) }
        url = settings.url
        twilioToken = settings.twilioAuthToken
        plivoToken = settings.plivoAuthToken
    }

    private static let caller = Caller(access: .session)

    /// Whether calls of a carrier need a proof of their own.
    func guards(_ carrier: TelephoneCarrier) -> Bool {
        secret != nil || carrier.signing.flatMap(token) != nil
    }

    /// The caller of a carrier's request, or nil where its credential decides.
    /// - Parameters:
    ///   - pathSecret: the secret in the path, if it has one.
    ///   - source: where the request was sent to. It counts where the settings have no URL.
    ///   - needsCredential: whether requests without a credential are refused in any case.
    func caller(
        of request: HTTPRequest, from carrier: TelephoneCarrier, pathSecret: String?,
        source: RequestSource, needsCredential: Bool
    ) throws(RefusalReason) -> Caller? {
        if let pathSecret {
            guard SHA256Digest(of: pathSecret) == secret else { throw .unknownCredential }
            return Self.caller
        }
        let hasCredential = needsCredential && request.fields.count(of: "Authorization") > 0
        if let signing = carrier.signing, let token = token(of: signing) {
            if request.fields.count(of: signing.field) > 0 {
                let urls = signedURLs(of: request, source)
                guard signing.isSigned(request.fields, urls, token: token) else {
                    throw .callSignature
                }
                return Self.caller
            }
            if !hasCredential { throw .callSignature }
        }
        // A server that needs no credential from other clients may have a secret for calls.
        if !needsCredential, secret != nil, !hasCredential { throw .noCredential }
        return nil
    }

    private func token(of signing: CallSigning) -> String? {
        switch signing {
        case .twilio: twilioToken
        case .plivo: plivoToken
        }
    }

    /// The forms of the URL that the carrier may have signed. Carriers write one scheme or the
    /// other. They sign a URL with or without its port, and their own libraries accept both. Where
    /// the URL has no port, it is the scheme's. Another port is never accepted.
    private func signedURLs(of request: HTTPRequest, _ source: RequestSource) -> [String] {
        let target = request.path + (request.query.map { "?\($0)" } ?? "")
        let authority = url.map { url in
            url.split(separator: "://", maxSplits: 1).last.map(String.init) ?? url
        }
        var place = authority ?? source.host
        while place.hasSuffix("/") { place.removeLast() }
        let (host, port) = Self.hostAndPort(of: place)
        let schemes = [("wss", "443"), ("https", "443"), ("ws", "80"), ("http", "80")]
        return schemes.flatMap { scheme, usual in
            [host, "\(host):\(port ?? usual)"].map { "\(scheme)://\($0)\(target)" }
        }
    }

    /// Splits an authority; the port is nil where there is none. An IPv6 address has brackets.
    private static func hostAndPort(of authority: String) -> (host: String, port: String?) {
        guard let colon = authority.lastIndex(of: ":") else { return (authority, nil) }
        let port = authority[authority.index(after: colon)...]
        guard !port.isEmpty,
            port.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") })
        else { return (authority, nil) }
        return (String(authority[..<colon]), String(port))
    }
}

extension RequestCredential {
    /// The credential of a carrier's request: the password of `Authorization: Basic`, or what any
    /// client may show.
    init(ofCarrier fields: HTTPFields) {
        self = RequestCredential.password(in: fields) ?? RequestCredential(fields)
    }
}
