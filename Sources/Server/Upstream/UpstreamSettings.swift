// How a server reaches the services that it calls: models, speech, MCP servers.

import Session

/// Settings of requests to services.
public struct UpstreamSettings: Sendable {
    /// None: the system's authorities count. New connections read the file again.
    public var authorities: String?
    /// The variables decide, as for other programs of the machine.
    public var proxy = ServiceProxy.environment

    static let settings: [Setting<Self>] = [
        .optionalText(
            "service-ca", \.authorities, "a file",
            """
            PEM file of the authorities that the certificates of model and speech servers are \
            checked against, instead of the system's.
            """),
        .value(
            "service-proxy", \.proxy,
            "environment, none, or a URL that begins with http://, https://, socks5:// or socks5h://",
            isSecret: true,
            """
            Proxy for requests to models, speech and MCP servers, webhooks and uploads: the one that \
            the variables http_proxy, https_proxy or all_proxy name, none, or this one. Hosts of the \
            variable no_proxy are reached without it. Requests between nodes, Redis and PostgreSQL \
            use no proxy. The log of the start has what is in force.
            """),
    ]
}
