// An OCSP response that is sent with our certificate (RFC 6066 §8), so that clients need not ask
// the issuer. The tool that renews the certificate fetches it into a file.
//
// Invariant: it is never stapled after its own expiry, as clients would refuse the connection.

import COpenSSL
import Session

/// One checked response.
struct OCSPStaple {
    /// 100 years.
    private static let maxDays: Int64 = 36_500

    private let bytes: [UInt8]
    /// When it expires, or nil where it has no expiry.
    private let end: Instant?

    /// Checks a response: it must be about this certificate, and its status must be good. Clients
    /// check the signature.
    /// - Parameter now: the moment at which the wall clock is read, on the clock of `attach`.
    init(_ file: ConfiguredFile, for leaf: OpaquePointer, at now: Instant) throws(OptionError) {
        bytes = file.bytes
        // Bytes behind the response belong to another file, or are the rest of an earlier one.
        var isWhole = false
        let response = file.bytes.withUnsafeBufferPointer { content in
            var rest = content.baseAddress
            defer { isWhole = rest == content.baseAddress.map { $0 + content.count } }
            return d2i_OCSP_RESPONSE(nil, &rest, content.count)
        }
        defer { OCSP_RESPONSE_free(response) }
        guard let response, isWhole, let basic = OCSP_response_get1_basic(response) else {
            ERR_clear_error()
            throw file.error("is no OCSP response in DER, or one that says nothing")
        }
        defer { OCSP_BASICRESP_free(basic) }
        guard let single = Self.answer(in: basic, about: leaf) else {
            throw file.error("is about another certificate; fetch the response for this one")
        }
        var next: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        guard OCSP_single_get0_status(single, nil, nil, nil, &next) == V_OCSP_CERTSTATUS_GOOD else {
            throw file.error("does not call the certificate good; is it revoked?")
        }
        guard let next else {
            end = nil
            return
        }
        var days: Int32 = 0
        var seconds: Int32 = 0
        guard ASN1_TIME_diff(&days, &seconds, nil, next) == 1 else {
            throw file.error("has no readable date")
        }
        // An `Instant` reaches 292 years, a date in the file the year 9999.
        end = now + .seconds(min(Int64(days), Self.maxDays) * 86_400 + Int64(seconds))
    }

    /// Whether clients would refuse it.
    func hasExpired(at now: Instant) -> Bool { end.map { $0 <= now } ?? false }

    /// Gives a connection a copy to send; false where the response has expired.
    func attach(to ssl: OpaquePointer, at now: Instant) -> Bool {
        guard !hasExpired(at: now),
            let copy = bytes.withUnsafeBytes({ parley_openssl_copy($0.baseAddress, $0.count) })
        else { return false }
        return parley_ssl_set_staple(ssl, copy, bytes.count) == 1
    }

    private static func answer(
        in basic: OpaquePointer, about leaf: OpaquePointer
    ) -> OpaquePointer? {
        for position in 0..<OCSP_resp_count(basic) {
            guard let single = OCSP_resp_get0(basic, position) else { continue }
            var serial: UnsafeMutablePointer<ASN1_INTEGER>?
            OCSP_id_get0_info(nil, nil, nil, &serial, OCSP_SINGLERESP_get0_id(single))
            if ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(leaf)) == 0 { return single }
        }
        return nil
    }
}
