// Entries of `allowed-hosts` and `allowed-origins`. RequestPolicy applies them.

import Codec

/// One entry of `allowed-hosts`.
public enum HostPattern: Hashable, Sendable {
    /// `*`
    case any
    /// `voice.example.com` with any port, or `voice.example.com:8443`.
    case host(WebAuthority)
    /// `*.example.com`, at any depth, but not `example.com`.
    case subdomains(WebAuthority)
    /// `192.168.0.0/16`, with any port.
    case addresses(AddressRange)

    /// Whether a Host matches.
    func matches(_ authority: WebAuthority) -> Bool {
        switch self {
        case .any: true
        case .host(let pattern):
            pattern.host == authority.host
                && (pattern.port == nil || pattern.port == authority.port)
        case .subdomains(let pattern):
            authority.host.isSubdomain(of: pattern.host)
                && (pattern.port == nil || pattern.port == authority.port)
        case .addresses(let range):
            if case .address(let address) = authority.host {
                range.contains(address)
            } else {
                false
            }
        }
    }
}

extension HostPattern: LosslessStringConvertible {
    /// Reads one of the forms above; nil for anything else.
    public init?(_ description: String) {
        if description == "*" {
            self = .any
        } else if let range = AddressRange(description) {
            self = .addresses(range)
        } else if description.hasPrefix("*.") {
            guard let parent = WebAuthority(String(description.dropFirst(2))),
                case .name = parent.host
            else { return nil }
            self = .subdomains(parent)
        } else {
            guard let authority = WebAuthority(description) else { return nil }
            self = .host(authority)
        }
    }

    /// The text that reads back as the same.
    public var description: String {
        switch self {
        case .any: "*"
        case .host(let authority): "\(authority)"
        case .subdomains(let parent): "*.\(parent)"
        case .addresses(let range): "\(range)"
        }
    }
}

/// One entry of `allowed-origins`.
public enum OriginPattern: Hashable, Sendable {
    /// `*`: every page of the web, `null` too.
    case any
    /// `https://app.example.com`, and nothing else.
    case origin(WebOrigin)
    /// `https://*.example.com`, at any depth, but not `https://example.com`.
    case subdomains(WebOrigin)

    /// Whether an origin matches. Scheme and port are always compared.
    func matches(_ origin: WebOrigin) -> Bool {
        switch self {
        case .any: true
        case .origin(let pattern): pattern == origin
        case .subdomains(let pattern):
            pattern.scheme == origin.scheme && pattern.port == origin.port
                && origin.host.isSubdomain(of: pattern.host)
        }
    }
}

extension OriginPattern: LosslessStringConvertible {
    /// Reads one of the forms above. Nil for anything else, also for `null`: any page can have that
    /// origin, so that it would mean `*`.
    public init?(_ description: String) {
        if description == "*" {
            self = .any
            return
        }
        let pieces = description.split(separator: "://*.", maxSplits: 1)
        if pieces.count == 2, let parent = WebOrigin("\(pieces[0])://\(pieces[1])"),
            case .name = parent.host
        {
            self = .subdomains(parent)
        } else if let origin = WebOrigin(description) {
            self = .origin(origin)
        } else {
            return nil
        }
    }

    /// The text that reads back as the same.
    public var description: String {
        switch self {
        case .any: "*"
        case .origin(let origin): "\(origin)"
        case .subdomains(let parent):
            "\(parent)".split(separator: "://", maxSplits: 1).joined(separator: "://*.")
        }
    }
}

extension WebHost {
    /// Whether this is a name below the other: `a.b` below `b`.
    fileprivate func isSubdomain(of parent: WebHost) -> Bool {
        guard case .name(let name) = self, case .name(let suffix) = parent else { return false }
        return name.utf8.count > suffix.utf8.count + 1 && name.hasSuffix("." + suffix)
    }
}
