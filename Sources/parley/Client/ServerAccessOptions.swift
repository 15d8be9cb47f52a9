// The options for access to a server: the key that a client command shows, and the certificates
// that it trusts. The address is each command's own option, because each uses another protocol.

import ArgumentParser
import Session

/// Options that `talk`, `call` and `top` share.
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
    var trustsAnyCertificate = false

    func validate() throws {
        if authoritiesPath != nil && trustsAnyCertificate {
            throw ValidationError("give only one of --ca and --insecure")
        }
        if givenKey.map({ SettingText.read($0) == nil }) ?? false {
            throw ValidationError("--key has a control character, such as a line break, within it")
        }
    }

    /// The key, from the command line or the environment. Without one, none is sent.
    var key: String? {
        let text = givenKey ?? environmentValue("PARLEY_API_KEY") ?? environmentValue("PARLEY_KEY")
        return text.flatMap { SettingText.read($0) }
    }

    /// Which certificates are trusted.
    var trust: ServerTrust {
        if let authoritiesPath { return .authorities(path: authoritiesPath) }
        return trustsAnyCertificate ? .any : .system
    }
}
