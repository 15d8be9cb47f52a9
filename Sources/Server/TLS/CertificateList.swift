// The certificates of a PEM file: a server's with its chain, or authorities. A file is used whole
// or not at all. OpenSSL's reader ends at the first damaged block as it does at the end of the
// file, and the certificates behind it would be missing without an error.

import COpenSSL
import Codec

/// Certificates in the order of their file, at least one.
final class CertificateList {
    /// The `X509` of each, as long as this list lives.
    let all: [OpaquePointer]

    /// Reads all certificates of a file. Other blocks, such as a key, may stand between them.
    /// - Throws: the error with the file and the number of the certificate or the line.
    init(_ file: ConfiguredFile) throws(OptionError) {
        if let line = PEMBoundaries.damagedLine(in: file.bytes) {
            throw file.error("is damaged at line \(line): a BEGIN or END line is missing or cut")
        }
        ERR_clear_error()
        var found: [OpaquePointer] = []
        file.withBIO { bio in
            while let certificate = PEM_read_bio_X509(bio, nil, nil, nil) {
                found.append(certificate)
            }
        }
        all = found
        // The end of the file is an error to OpenSSL, too.
        let code = ERR_peek_last_error()
        let isEnd = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE
        let reason = openSSLReason()
        guard isEnd else {
            throw file.error(
                "is damaged: certificate \(found.count + 1) cannot be read (\(reason))")
        }
        guard !found.isEmpty else { throw file.error("contains no certificate in PEM") }
    }

    deinit { for certificate in all { X509_free(certificate) } }

    /// Why clients may not be able to follow the chain from the first certificate to an authority, as
    /// a clause that follows the file's name; nil where they can.
    var objectionToChain: String? {
        for (index, (certificate, issuer)) in zip(all, all.dropFirst()).enumerated()
        where !Self.isIssued(certificate, by: issuer) {
            return "has a broken chain: certificate \(index + 2) is not the issuer of certificate "
                + "\(index + 1), and many clients will refuse it; put each issuer behind what it "
                + "issued"
        }
        guard let last = all.last, X509_self_signed(last, 0) != 1, !Self.isIssuerKnown(of: last)
        else { return nil }
        return "has no issuer of its last certificate (number \(all.count)), and this machine's "
            + "authorities are not it either: clients that do not have it will refuse the "
            + "connection; give the whole chain"
    }

    private static func isIssued(_ certificate: OpaquePointer, by issuer: OpaquePointer) -> Bool {
        defer { ERR_clear_error() }
        return X509_check_issued(issuer, certificate) == X509_V_OK
            && X509_verify(certificate, X509_get0_pubkey(issuer)) == 1
    }

    /// Whether one of the machine's authorities has issued a certificate.
    private static func isIssuerKnown(of certificate: OpaquePointer) -> Bool {
        defer { ERR_clear_error() }
        guard let store = X509_STORE_new() else { return false }
        defer { X509_STORE_free(store) }
        guard let search = X509_STORE_CTX_new() else { return false }
        defer { X509_STORE_CTX_free(search) }
        var issuer: OpaquePointer?
        guard X509_STORE_set_default_paths(store) == 1,
            X509_STORE_CTX_init(search, store, certificate, nil) == 1,
            X509_STORE_CTX_get1_issuer(&issuer, search, certificate) == 1
        else { return false }
        X509_free(issuer)
        return true
    }
}
