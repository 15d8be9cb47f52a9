// A signed field of a request that one node of a cluster sends another: the caller, its access, and
// their end. It takes the place of the caller's credential, which only the first node has seen.
//
//   Parley-Node: ACCESS.PRINCIPAL.SECRET.END.CODE
//
// CODE is the HMAC (SHA-256) of these four, of the receiver's name and of the request line, by a
// secret that the nodes share. SECRET is the hash of the caller's client secret, if it has one. So
// a pass is good for one request of one node, for some seconds. A second use of it repeats the
// effect of the first.
//
// Invariant: a pass never grants more than its caller's own access.

import Codec

/// The sender and the end of a request that another node passes on.
struct NodePass: Equatable {
    /// The field's name.
    static let field = "Parley-Node"
    /// How long a pass is good. 10 s: the clocks of machines may differ by some.
    static let lifetimeSeconds = 10
    /// Bytes of a pass. 512: more than any has.
    static let maxBytes = 512

    /// The routes that the caller may use.
    let access: RouteAccess
    /// The principal whose sessions it may reach. Nil means that callers are not told apart.
    let principal: SHA256Digest?
    /// The hash of the caller's client secret. The caller may then resume only that secret's chats.
    let secret: SHA256Digest?
    /// Seconds since 1970.
    let end: Int

    /// The pass for a caller's request.
    init(for caller: Caller, at wallSeconds: Int) {
        access = caller.access
        principal = caller.principal
        secret = caller.secret
        end = wallSeconds + Self.lifetimeSeconds
    }

    /// The field's value.
    /// - Parameters:
    ///   - target: path and query of the request.
    ///   - node: the receiver.
    /// - Returns: nil where the key is no secret.
    func text(for method: HTTPMethod, _ target: String, to node: String, by key: JSONWebKey)
        -> String?
    {
        let facts = facts
        guard let code = key.authenticationCode(of: Self.signed(facts, method, target, node))
        else { return nil }
        return facts + "." + Base64URL.text(of: code)
    }

    /// Reads the pass of a request.
    /// - Returns: nil unless the key has made it, for this request to this node, and it is good now.
    init?(
        _ text: String, for request: HTTPRequest, to node: String, by key: JSONWebKey,
        at wallSeconds: Int
    ) {
        guard text.utf8.count <= Self.maxBytes else { return nil }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 5, let code = Base64URL.decode(parts[4].utf8) else { return nil }
        let facts = parts[..<4].joined(separator: ".")
        guard key.verifies(code, of: Self.signed(facts, request.method, request.target, node))
        else {
            return nil
        }
        guard let number = Int(parts[0]), let access = RouteAccess(rawValue: number),
            access >= .session, let end = Int(parts[3]), end >= wallSeconds,
            end <= wallSeconds.addingReportingOverflow(2 * Self.lifetimeSeconds).partialValue,
            let principal = Self.digest(in: parts[1]), let secret = Self.digest(in: parts[2])
        else { return nil }
        (self.access, self.principal, self.secret, self.end) = (access, principal, secret, end)
    }

    private var facts: String {
        let hashes = [principal, secret].map { $0?.hexadecimal() ?? "-" }.joined(separator: ".")
        return "\(access.rawValue).\(hashes).\(end)"
    }

    /// The hash in a part. The inner optional is nil where the part stands for no hash, the outer
    /// one where the part is not valid.
    private static func digest(in part: Substring) -> SHA256Digest?? {
        if part == "-" { return .some(nil) }
        return SHA256Digest(hexadecimal: part).map { .some($0) }
    }

    /// The text that is signed. No part of it can hold a line's end.
    private static func signed(
        _ facts: String, _ method: HTTPMethod, _ target: String, _ node: String
    ) -> [UInt8] {
        Array("parley node 2\n\(node)\n\(method.name) \(target)\n\(facts)".utf8)
    }
}

extension HTTPRequest {
    /// Path and query, as they came.
    var target: String { path + (query.map { "?" + $0 } ?? "") }
}
