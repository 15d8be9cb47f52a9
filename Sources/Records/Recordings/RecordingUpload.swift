// Where complete files go, as the operator has set it.

import Codec

/// Where files go.
public struct RecordingUpload: Sendable {
    /// The URL that a file's day and name are appended to, with a slash at its end.
    public let url: String
    /// `ACCESS:SECRET`, for the signature of AWS (version 4). Without it, requests are not signed.
    public let key: String?
    /// The region of the signature.
    public let region: String
    /// A file of certificate authorities. The default is the system's.
    public let authorities: String?
    /// libcurl's option for the proxy. Without it, the environment variables decide.
    public var proxy: String?

    /// Describes a server.
    /// - Returns: nil where the URL has a query or a fragment, which no name can be appended to.
    public init?(url: String, key: String?, region: String, authorities: String?) {
        guard let url = Self.canonical(url) else { return nil }
        (self.url, self.key, self.region, self.authorities) = (url, key, region, authorities)
    }

    /// The URL with its path as S3 encodes it for the signature. Percent signs with capital
    /// hexadecimal digits stand for every byte but letters, digits, `-`, `.`, `_`, `~` and the
    /// slashes. libcurl signs the path as it is sent.
    private static func canonical(_ url: String) -> String? {
        guard !url.contains(where: { $0 == "?" || $0 == "#" }),
            let host = url.firstRange(of: "://")?.upperBound
        else { return nil }
        let start = url[host...].firstIndex(of: "/") ?? url.endIndex
        guard let path = HTTPRequest.percentDecoded(url[start...]) else { return nil }
        var encoded = String(url[..<start])
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "/"):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                encoded += (byte < 16 ? "%0" : "%") + digits
            }
        }
        return encoded.hasSuffix("/") ? encoded : encoded + "/"
    }
}
