// Certificates for tests, created when needed and never stored: an authority, its certificates, and
// its OCSP responses.

import COpenSSL
import Server

/// A certificate and its key in PEM format.
package struct TestCertificate: Sendable {
    /// The certificate.
    package let certificate: [UInt8]
    /// Its private key.
    package let key: [UInt8]
    /// The same key, encrypted with a passphrase.
    package let encryptedKey: [UInt8]

    /// The files of a server, by their options' names.
    package func material(
        clientCA: TestAuthority? = nil, ocsp: [UInt8]? = nil
    ) -> TLSMaterial {
        TLSMaterial(
            certificate: ConfiguredFile(option: "tls-cert", path: "cert.pem", bytes: certificate),
            key: ConfiguredFile(option: "tls-key", path: "key.pem", bytes: key),
            clientCA: clientCA.map {
                ConfiguredFile(option: "tls-client-ca", path: "ca.pem", bytes: $0.root.certificate)
            },
            ocsp: ocsp.map { ConfiguredFile(option: "tls-ocsp", path: "ocsp.der", bytes: $0) })
    }
}

/// Issues certificates.
package final class TestAuthority: @unchecked Sendable {
    /// The properties of a certificate.
    package struct Request {
        /// Common name.
        package var name = "localhost"
        /// Start and end of its validity, in seconds from now.
        package var validity = -3_600...3_600

        package init() {}
    }

    /// The authority's own certificate.
    package private(set) var root: TestCertificate
    private let certificate: OpaquePointer
    private let key: OpaquePointer
    private var serial = 1

    /// Creates a new authority.
    package init(name: String = "Test authority") {
        key = Self.makeKey()
        var request = Request()
        request.name = name
        certificate = Self.sign(
            request, key, serial: 1, issuer: nil, by: key, constraint: "critical,CA:TRUE")
        root = Self.files(certificate, key)
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
    }

    /// Issues a certificate for `localhost`, changed as requested.
    package func issue(_ change: (inout Request) -> Void = { _ in }) -> TestCertificate {
        var request = Request()
        change(&request)
        let key = Self.makeKey()
        serial += 1
        let issued = Self.sign(
            request, key, serial: serial, issuer: certificate, by: self.key,
            constraint: "critical,CA:FALSE")
        defer {
            X509_free(issued)
            EVP_PKEY_free(key)
        }
        return Self.files(issued, key)
    }

    /// An OCSP response (DER) about a certificate of this authority.
    /// - Parameter lifetime: when it expires, in seconds from now.
    package func ocspResponse(
        about subject: TestCertificate, isGood: Bool = true, lifetime: Int = 3_600
    ) -> [UInt8] {
        let leaf = subject.certificate.withUnsafeBytes { bytes in
            let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count))
            defer { BIO_free(bio) }
            return PEM_read_bio_X509(bio, nil, nil, nil)
        }
        let response = OCSP_BASICRESP_new()
        let id = OCSP_cert_to_id(nil, leaf, certificate)
        let begin = X509_gmtime_adj(nil, -7_200)
        let end = X509_gmtime_adj(nil, lifetime)
        let status = isGood ? V_OCSP_CERTSTATUS_GOOD : V_OCSP_CERTSTATUS_REVOKED
        OCSP_basic_add1_status(
            response, id, status, 0, isGood ? nil : begin, begin, end)
        OCSP_basic_sign(response, certificate, key, EVP_sha256(), nil, 0)
        let whole = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, response)
        defer {
            OCSP_RESPONSE_free(whole)
            OCSP_BASICRESP_free(response)
            OCSP_CERTID_free(id)
            ASN1_STRING_free(begin)
            ASN1_STRING_free(end)
            X509_free(leaf)
        }
        var bytes = [UInt8](repeating: 0, count: Int(i2d_OCSP_RESPONSE(whole, nil)))
        bytes.withUnsafeMutableBufferPointer {
            var target = $0.baseAddress
            _ = i2d_OCSP_RESPONSE(whole, &target)
        }
        return bytes
    }

    // MARK: OpenSSL

    private static func makeKey() -> OpaquePointer {
        let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        EVP_PKEY_keygen_init(context)
        EVP_PKEY_CTX_set_group_name(context, "P-256")
        EVP_PKEY_generate(context, &key)
        guard let key else { preconditionFailure("no key was made") }
        return key
    }

    private static func sign(
        _ request: Request, _ key: OpaquePointer, serial: Int, issuer: OpaquePointer?,
        by signer: OpaquePointer, constraint: String
    ) -> OpaquePointer {
        guard let certificate = X509_new() else { preconditionFailure("out of memory") }
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial)
        X509_gmtime_adj(X509_getm_notBefore(certificate), request.validity.lowerBound)
        X509_gmtime_adj(X509_getm_notAfter(certificate), request.validity.upperBound)
        X509_set_pubkey(certificate, key)
        let subject = X509_get_subject_name(certificate)
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, request.name, -1, -1, 0)
        let issuerName = issuer.map { X509_get_subject_name($0) } ?? subject
        X509_set_issuer_name(certificate, issuerName)
        for (kind, value) in [
            (NID_basic_constraints, constraint), (NID_subject_alt_name, "DNS:localhost"),
        ] {
            let field = X509V3_EXT_conf_nid(nil, nil, kind, value)
            X509_add_ext(certificate, field, -1)
            X509_EXTENSION_free(field)
        }
        X509_sign(certificate, signer, EVP_sha256())
        return certificate
    }

    private static func files(_ certificate: OpaquePointer, _ key: OpaquePointer)
        -> TestCertificate
    {
        TestCertificate(
            certificate: written { PEM_write_bio_X509($0, certificate) },
            key: written { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) },
            encryptedKey: written {
                PEM_write_bio_PrivateKey($0, key, EVP_aes_128_cbc(), "secret", 6, nil, nil)
            })
    }

    private static func written(_ body: (OpaquePointer?) -> Int32) -> [UInt8] {
        let bio = BIO_new(BIO_s_mem())
        defer { BIO_free(bio) }
        precondition(body(bio) == 1, "OpenSSL does not write PEM")
        var start: UnsafeMutablePointer<CChar>?
        let count = parley_bio_memory(bio, &start)
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}
