// The routes of telephone carriers: one path for each carrier that is switched on, and where a secret
// for paths is configured, a second one with the secret behind it.

import Codec

extension Route {
    /// Routes for the carriers that are switched on.
    static func telephone(_ configuration: ServerConfiguration) -> [Route] {
        let carriers = TelephoneCarrier.allCases.filter(configuration.telephone.carriers.contains)
        return carriers.flatMap { carrier in
            let path = "/\(carrier.rawValue)"
            let hasSecret = configuration.telephone.secret != nil
            return (hasSecret ? [path, "\(path)/{secret}"] : [path]).map { path in
                Route(
                    path: path, methods: [.get], access: .session, pages: .sameOrigin,
                    summary: "A telephone call over WebSocket, in the protocol of its carrier.",
                    service: .webSocket(.call(carrier)), content: { .call })
            }
        }
    }

    /// The carrier whose calls it takes, if it takes any.
    var carrier: TelephoneCarrier? {
        if case .webSocket(.call(let carrier)) = service { carrier } else { nil }
    }

    /// Whether its path has a secret, which no log may show.
    var hasSecretPath: Bool { path.hasSuffix("{secret}") }
}

extension RouteContent {
    fileprivate static var call: RouteContent {
        RouteContent(
            answers: [
                RouteAnswer(
                    status: 101, "The connection is a WebSocket now; docs/telephone.md has its use."
                ),
                RouteAnswer(status: 403, "The carrier's signature is wrong or missing.", .failure),
                RouteAnswer(status: 426, "No WebSocket was asked for.", .failure),
            ])
    }
}
