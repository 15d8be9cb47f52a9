// The proxy that requests to services go through: models, speech, MCP servers, webhooks, uploads of
// recordings. Requests between nodes, Redis and PostgreSQL never use one.
//
// libcurl reads the variables by itself (curl's manual, "Environment variables"); this file names them
// for the log.

import CLinux

/// Where requests to services go through.
public enum ServiceProxy: Equatable, Sendable, LosslessStringConvertible {
    /// Through the proxy that `http_proxy`, `https_proxy` or `all_proxy` name, if one does.
    case environment
    /// Straight to the service, whatever the variables say.
    case none
    /// Through this proxy.
    case url(String)

    private static let schemes = ["http://", "https://", "socks5://", "socks5h://"]

    /// Reads the option's value; nil for any other text.
    public init?(_ text: String) {
        switch text {
        case "environment": self = .environment
        case "none": self = .none
        default:
            guard let scheme = Self.schemes.first(where: text.hasPrefix), text != scheme,
                text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else { return nil }
            self = .url(text)
        }
    }

    /// The option's value.
    public var description: String {
        switch self {
        case .environment: "environment"
        case .none: "none"
        case .url(let url): url
        }
    }

    /// libcurl's option `CURLOPT_PROXY`. Where nil, it is not set, and libcurl reads the
    /// environment variables.
    public var curlOption: String? {
        switch self {
        case .environment: nil
        case .none: ""
        case .url(let url): url
        }
    }

    /// The proxies in force, by the kind of URL, for the log; empty where services are reached
    /// straight.
    /// Credentials of the proxy are left out.
    /// - Parameter variable: the value of an environment variable.
    package func inForce(_ variable: (String) -> String?) -> [(name: String, value: String)] {
        var entries: [(name: String, value: String)] = []
        switch self {
        case .none: return []
        case .url(let url):
            entries = [("http", "service-proxy"), ("https", "service-proxy")].map {
                ($0.0, "\(UpstreamTransfer.origin(of: url)) (\($0.1))")
            }
        case .environment:
            // HTTP_PROXY in capitals is not read: a CGI's client could set it (CVE-2016-5385).
            for (scheme, names) in [
                ("http", ["http_proxy", "all_proxy", "ALL_PROXY"]),
                ("https", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            ] {
                for name in names {
                    guard let value = variable(name), !value.isEmpty else { continue }
                    entries.append((scheme, "\(UpstreamTransfer.origin(of: value)) (\(name))"))
                    break
                }
            }
        }
        guard !entries.isEmpty else { return [] }
        if let except = variable("no_proxy") ?? variable("NO_PROXY"), !except.isEmpty {
            entries.append(("except", except))
        }
        return entries
    }
}
