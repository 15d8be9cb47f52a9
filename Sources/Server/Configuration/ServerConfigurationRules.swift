// The checks on a configuration before a server starts with it: the range of every setting, and the
// rules between settings. They hold for programs that use the package as for `parley serve`.
//
// Invariant: a server within all ranges and rules keeps every promise of its documentation.

extension ServerConfiguration {
    /// Bytes of the URL of a node.
    private static let maxURLBytes = 300

    /// Whether a text is `http[s]://HOST[:PORT]`.
    package static func isNodeURL(_ text: String) -> Bool {
        guard text.utf8.count <= maxURLBytes else { return false }
        let rest =
            text.hasPrefix("http://")
            ? text.dropFirst(7) : text.hasPrefix("https://") ? text.dropFirst(8) : ""
        let allowed = "-._:[]"
        return !rest.isEmpty
            && rest.utf8.allSatisfy { $0.isASCIIAlphanumeric || allowed.utf8.contains($0) }
    }

    private var objectionToTokens: String? {
        let hasKeys = jwtKeysFile != nil || jwtSecret != nil
        if !hasKeys, jwtAudience != nil || jwtIssuer != nil {
            return "jwt-audience and jwt-issuer need jwt-keys-file or jwt-secret"
        }
        return nil
    }

    private var objectionToTLS: String? {
        if (tlsCertificate == nil) != (tlsKey == nil) {
            return tlsKey == nil
                ? "tls-cert needs tls-key: the file of the certificate's private key"
                : "tls-key needs tls-cert: the file of the key's certificate"
        }
        if tlsCertificate == nil, tlsClientCA != nil {
            return "tls-client-ca needs tls-cert and tls-key"
        }
        if tlsCertificate == nil, tlsOCSP != nil { return "tls-ocsp needs tls-cert and tls-key" }
        return nil
    }

    private var objectionToQuotas: String? {
        let lists = [
            ("key", quotasPerKey), ("address", quotasPerAddress), ("session", quotasPerSession),
        ]
        for (owner, quotas) in lists where quotas.hasRepeats {
            return "quotas-per-\(owner) has two quotas of the same unit and period"
        }
        if quotasPerSession.contains(where: { $0.unit == .connections }) {
            return "quotas-per-session cannot limit connections: a session has one"
        }
        return nil
    }

    /// The first error in the settings, as one line that names the option; nil where there is none.
    package var objection: String? {
        for setting in Self.settings.flatMap(\.settings) {
            if let objection = setting.objection(to: self) { return objection }
        }
        if let objection = objectionToTLS ?? objectionToTokens ?? objectionToQuotas {
            return objection
        }
        // The answers of one tick, and the last of them, must fit a queue that was within its share.
        if maxQueuedOutputBytes < 2 * maxWriteBytesPerTick {
            return "max-queued-output-bytes must be at least twice max-write-bytes-per-tick"
        }
        if softQueuedOutputBytes > maxQueuedOutputBytes {
            return "soft-queued-output-bytes must not be more than max-queued-output-bytes"
        }
        if proxyProtocol == .required && trustedProxies.isEmpty {
            return "proxy-protocol needs trusted-proxies: only their headers are believed"
        }
        return nil
    }
}
