// How a command of the client's gets into a server: the key that it shows, and whose word it takes
// for the server's certificate. Where the server is, is the command's own option, as each speaks
// another protocol with it.

import ArgumentParser

/// Options that `talk` and `top` share.
struct ServerAccessOptions: ParsableArguments {
    @Option(
        name: .customLong("key"),
        help: "The key to send as a bearer token (or PARLEY_API_KEY, or PARLEY_KEY).")
    var givenKey: String?

    @Option(
        name: .customLong("ca"),
        help: "Trust the authorities in this PEM file, for example a self-signed certificate.")
    var authoritiesPath: String?

    @Flag(name: .customLong("insecure"), help: "Do not check the server's certificate.")
    var trustsAnybody = false

    func validate() throws {
        if authoritiesPath != nil && trustsAnybody {
            throw ValidationError("give only one of --ca and --insecure")
        }
    }

    /// The key, from the command line or the environment; nil: none is sent.
    var key: String? {
        givenKey ?? environmentValue("PARLEY_API_KEY") ?? environmentValue("PARLEY_KEY")
    }

    /// Who vouches for the server.
    var trust: ServerTrust {
        if let authoritiesPath { return .authorities(path: authoritiesPath) }
        return trustsAnybody ? .anybody : .system
    }
}
