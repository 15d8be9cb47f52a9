// What TLS needs from files: certificate, key, the authorities of clients, the OCSP answer. Read
// whole, so that what is checked is what is used, whatever becomes of the file meanwhile.
// What is in them is TLSContext's business.
//
// Invariant: every refusal is one line that names the option, the file, and what to do.

import CLinux

/// Why TLS cannot be set up, as one line for the operator.
package struct TLSError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The line, which begins with the option's name.
    package let description: String

    /// About one option.
    init(_ option: String, _ problem: String) { description = "\(option): \(problem)" }
}

/// Which clients must show a certificate, where `tls-client-ca` names who may have issued it.
public enum TLSClientAuthentication: String, CaseIterable, Sendable {
    /// A client without a certificate is served; one with a wrong certificate is not.
    case optional
    /// Only clients with a certificate are served.
    case required
}

/// The content of a file, and whose it is.
package struct TLSFile: Sendable {
    /// Bytes beyond which a file cannot be what it should be. 1 MiB: a bundle of all public
    /// authorities takes a fifth of that.
    static let maxBytes = 1 << 20

    /// The option that named it, for example `tls-cert`.
    let option: String
    /// As it was given.
    let path: String
    let bytes: [UInt8]

    /// Takes bytes as a file's, for tests.
    package init(option: String, path: String, bytes: [UInt8]) {
        self.option = option
        self.path = path
        self.bytes = bytes
    }

    /// Reads a file.
    init(option: String, readingFrom path: String) throws(TLSError) {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { throw Self.unreadable(option, path) }
        defer { close(descriptor) }
        var content: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while content.count <= Self.maxBytes {
            let count = read(descriptor, &buffer, buffer.count)
            guard count >= 0 else { throw Self.unreadable(option, path) }
            if count == 0 {
                self.init(option: option, path: path, bytes: content)
                return
            }
            content += buffer[..<count]
        }
        throw TLSError(option, "\(path) is larger than \(Self.maxBytes) bytes")
    }

    /// An objection to the content.
    func error(_ problem: String) -> TLSError { TLSError(option, "\(path) \(problem)") }

    private static func unreadable(_ option: String, _ path: String) -> TLSError {
        TLSError(option, "cannot read \(path): \(String(cString: strerror(parley_errno())))")
    }
}

/// All files of one context.
package struct TLSMaterial: Sendable {
    /// The server's certificate and, after it, those that lead to a root (PEM).
    var certificate: TLSFile
    /// The certificate's private key (PEM, not encrypted).
    var key: TLSFile
    /// Certificates of those who issue the clients' (PEM); nil: clients are not asked.
    var clientCA: TLSFile?
    /// The issuer's OCSP response about the certificate (DER), to be stapled; nil: none is.
    var ocsp: TLSFile?

    /// Collects files.
    package init(
        certificate: TLSFile, key: TLSFile, clientCA: TLSFile? = nil, ocsp: TLSFile? = nil
    ) {
        self.certificate = certificate
        self.key = key
        self.clientCA = clientCA
        self.ocsp = ocsp
    }

    /// Reads the files that the configuration names; nil: it names none, TLS is off.
    init?(_ configuration: ServerConfiguration) throws(TLSError) {
        guard let certificate = configuration.tlsCertificate, let key = configuration.tlsKey
        else { return nil }
        self.certificate = try TLSFile(option: "tls-cert", readingFrom: certificate)
        self.key = try TLSFile(option: "tls-key", readingFrom: key)
        if let path = configuration.tlsClientCA {
            clientCA = try TLSFile(option: "tls-client-ca", readingFrom: path)
        }
        if let path = configuration.tlsOCSP {
            ocsp = try TLSFile(option: "tls-ocsp", readingFrom: path)
        }
    }
}
