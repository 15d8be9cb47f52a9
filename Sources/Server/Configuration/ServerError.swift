// Why a server cannot start, each as one line that says what to do.

import CLinux
import Session

/// Why a server could not start.
public enum ServerError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The host is neither an address nor a name that resolves.
    case unknownHost(String)
    /// Another process listens there.
    case portInUse(host: String, port: Int)
    /// The port needs rights that the process does not have.
    case portForbidden(port: Int)
    /// A socket that a supervisor passed cannot be listened on.
    case inheritedSocket(String)
    /// A setting is out of its range.
    case invalidConfiguration(String)
    /// A file of TLS cannot be used.
    case tls(String)
    /// A key or a file of credentials cannot be used.
    case credentials(String)
    /// Other machines could use the server without credentials.
    case exposed(host: String)
    /// Other machines could guess a credential.
    case guessable(host: String, line: String)
    /// A system call failed.
    case system(IOErrorDescription)

    /// The failed call and its `errno`.
    public struct IOErrorDescription: Equatable, Sendable {
        /// The call, for example `socket`.
        public let call: String
        /// Its `errno`.
        public let code: Int32
    }

    /// One line that says what to do.
    public var description: String {
        switch self {
        case .unknownHost(let host):
            "cannot listen on '\(host)': it is not an address of this machine; try 127.0.0.1 or "
                + "0.0.0.0"
        case .portInUse(let host, let port):
            "port \(port) on \(host) is taken by another process; stop that one, or choose another "
                + "port with --port"
        case .portForbidden(let port):
            "this user may not listen on port \(port); choose one above 1023 with --port"
        case .inheritedSocket(let objection):
            "\(objection): the supervisor must pass listening TCP sockets; see examples/deploy"
        case .invalidConfiguration(let message), .tls(let message), .credentials(let message):
            message
        case .exposed(let host):
            "refusing to listen on \(host), where others can connect, without credentials: give "
                + "PARLEY_API_KEY, --api-keys-file or --jwt-keys-file, or --insecure to serve "
                + "everybody"
        case .guessable(let host, let line):
            "refusing to listen on \(host), where others can connect: \(line), or give --insecure "
                + "to allow it"
        case .system(let error):
            "\(error.call) failed: \(String(cString: strerror(error.code)))"
        }
    }

    init(_ error: IOError) { self = .system(.init(call: error.call, code: error.code)) }
}
