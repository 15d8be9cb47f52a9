// A client secret as a node leaves it for the others: the request that it was made by, its owner
// and its end. It has neither the secret nor the rights of its key: each node knows the keys
// itself.
//
//   {"version":1,"form":"current","key":"HASH","end":1800000600}⏎ the body of the request
//
// Invariant: a record is read as untrusted input. Its body goes through the parsers of requests again.

import Codec

/// The facts that a node needs to accept a client secret that another one has made.
struct SecretRecord: Equatable, Sendable {
    /// Bytes of a record. 256 KiB: ten times a session with long instructions and many tools. A longer
    /// secret is good at its own node only.
    static let maxBytes = 256 << 10
    private static let version = 1

    /// The form of the request.
    let form: ClientSecretForm
    /// The owner: the hash of a key, or an address where no credentials are needed.
    let owner: SecretOwner
    /// When it expires, in seconds since 1970.
    let end: Int
    /// The body of the request.
    let body: [UInt8]

    init(form: ClientSecretForm, owner: SecretOwner, end: Int, body: [UInt8]) {
        (self.form, self.owner, self.end, self.body) = (form, owner, end, body)
    }

    /// Reads a record; nil for anything else.
    init?(_ bytes: [UInt8], parser: JSONParser) {
        guard bytes.count <= Self.maxBytes,
            let headEnd = bytes.firstIndex(of: UInt8(ascii: "\n")),
            let head = try? parser.parse(Array(bytes[..<headEnd])),
            head["version"]?.int == Self.version,
            let form = head["form"]?.string.flatMap(ClientSecretForm.init(recorded:)),
            let end = head["end"]?.int
        else { return nil }
        if let key = head["key"]?.string {
            guard let digest = SHA256Digest(hexadecimal: key) else { return nil }
            owner = .principal(digest)
        } else {
            guard let address = head["address"]?.string.flatMap(NetworkAddress.init) else {
                return nil
            }
            owner = .address(address.subscriber)
        }
        self.form = form
        self.end = end
        body = Array(bytes[(headEnd + 1)...])
    }

    /// The record as bytes, or nil where it is too long.
    var bytes: [UInt8]? {
        var writer = JSONWriter(ByteWriter(capacity: 256))
        writer.object { json in
            json.member("version", Self.version)
            json.member("form", form.recorded)
            switch owner {
            case .principal(let digest): json.member("key", digest.hexadecimal())
            case .address(let address): json.member("address", "\(address)")
            }
            json.member("end", end)
        }
        let bytes = writer.finish().copiedBytes + [UInt8(ascii: "\n")] + body
        return bytes.count <= Self.maxBytes ? bytes : nil
    }
}

extension ClientSecretForm {
    fileprivate var recorded: String {
        switch self {
        case .current: "current"
        case .betaSession: "beta_session"
        case .betaTranscription: "beta_transcription"
        }
    }

    fileprivate init?(recorded name: String) {
        switch name {
        case "current": self = .current
        case "beta_session": self = .betaSession
        case "beta_transcription": self = .betaTranscription
        default: return nil
        }
    }
}
