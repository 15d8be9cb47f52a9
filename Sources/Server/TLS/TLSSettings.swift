// The files of TLS, which clients need a certificate, and how much of a tick handshakes may take.

import Session

/// The clients that must show a certificate of an authority in `tls-client-ca`.
public enum TLSClientAuthentication: String, CaseIterable, Sendable {
    /// A client without a certificate is served; one with a wrong certificate is not.
    case optional
    /// Only clients with a certificate are served.
    case required
}

/// Settings of TLS.
public struct TLSSettings: Sendable {
    /// None: the port speaks plain TCP.
    public var certificate: String?
    /// None. It is given exactly if `certificate` is.
    public var key: String?
    /// None: clients are not asked for a certificate.
    public var clientCA: String?
    /// Required: an operator who names authorities wants no other clients.
    public var clientAuthentication = TLSClientAuthentication.required
    /// None: no response is stapled.
    public var ocsp: String?
    /// 1 h: a client that reconnects within it saves the handshake's signature. A key that leaks
    /// has sealed no more than that.
    public var ticketPeriod = Duration.seconds(3_600)
    /// 8: a handshake takes 0.3 to 1 ms, and a storm of them must not delay the 20 ms packets of
    /// other clients.
    public var maxHandshakesPerTick = 8

    static let settings: [Setting<Self>] = [
        .optionalText(
            "tls-cert", \.certificate, "a file",
            """
            PEM file of the certificate and, after it, its chain. With it and tls-key the \
            port speaks TLS 1.2 and 1.3 (https, wss) and nothing else. SIGHUP reads all TLS \
            files again.
            """),
        .optionalText(
            "tls-key", \.key, "a file",
            "PEM file of the certificate's private key, not encrypted."),
        .optionalText(
            "tls-client-ca", \.clientCA, "a file",
            """
            PEM file of the authorities whose certificates clients may show. Without it \
            clients are not asked for one.
            """),
        .choice(
            "tls-client-auth", \.clientAuthentication,
            """
            Whether a client without a certificate is served too, where tls-client-ca is \
            given.
            """),
        .optionalText(
            "tls-ocsp", \.ocsp, "a file",
            """
            DER file of the issuer's OCSP response about the certificate. It is stapled to \
            handshakes until it expires.
            """),
        .milliseconds(
            "tls-ticket-period-ms", \.ticketPeriod, 1_000...604_800_000,
            "Time for which a key seals session tickets; it opens them for as long again."),
        .integer(
            "max-tls-handshakes-per-tick", \.maxHandshakesPerTick, 1...65_535,
            unit: "reads",
            """
            Reads of unfinished handshakes before the open connections are served; a \
            handshake takes as long as 50 packets of audio.
            """),
    ]

    /// Whether the port speaks TLS.
    public var isOn: Bool { certificate != nil }

    /// Whether clients must show a certificate.
    var asksForCertificates: Bool { clientCA != nil && clientAuthentication == .required }

    /// The error in these settings; nil where there is none.
    var objection: String? {
        if (certificate == nil) != (key == nil) {
            return key == nil
                ? "tls-cert needs tls-key: the file of the certificate's private key"
                : "tls-key needs tls-cert: the file of the key's certificate"
        }
        if certificate == nil, clientCA != nil { return "tls-client-ca needs tls-cert and tls-key" }
        if certificate == nil, ocsp != nil { return "tls-ocsp needs tls-cert and tls-key" }
        return nil
    }
}
