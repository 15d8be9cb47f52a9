// The files of TLS: certificate, key, the authorities of clients, the OCSP response. They are read
// whole, so that the checked bytes are the used bytes, even if a file changes meanwhile. TLSContext
// parses them.

/// All files of one context.
package struct TLSMaterial: Sendable {
    /// The server's certificate, followed by its chain up to a root (PEM).
    var certificate: ConfiguredFile
    /// The certificate's private key (PEM, not encrypted).
    var key: ConfiguredFile
    /// Certificates of the clients' authorities (PEM). Where nil, clients need no certificate.
    var clientCA: ConfiguredFile?
    /// The issuer's OCSP response about the certificate (DER), to be stapled, if there is one.
    var ocsp: ConfiguredFile?

    /// Collects files.
    package init(
        certificate: ConfiguredFile, key: ConfiguredFile, clientCA: ConfiguredFile? = nil,
        ocsp: ConfiguredFile? = nil
    ) {
        self.certificate = certificate
        self.key = key
        self.clientCA = clientCA
        self.ocsp = ocsp
    }

    /// Reads the files that the settings name. The result is nil where they name none: TLS is off.
    init?(_ settings: TLSSettings) throws(OptionError) {
        guard let certificate = settings.certificate, let key = settings.key
        else { return nil }
        self.certificate = try ConfiguredFile(option: "tls-cert", readingFrom: certificate)
        self.key = try ConfiguredFile(option: "tls-key", readingFrom: key)
        if let path = settings.clientCA {
            clientCA = try ConfiguredFile(option: "tls-client-ca", readingFrom: path)
        }
        if let path = settings.ocsp {
            ocsp = try ConfiguredFile(option: "tls-ocsp", readingFrom: path)
        }
    }
}
