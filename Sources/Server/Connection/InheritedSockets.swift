// Socket activation: a supervisor, such as systemd, opens listening sockets before it starts the
// process, and passes them as descriptors from 3 on (sd_listen_fds(3)). The variables LISTEN_PID
// and LISTEN_FDS say how many; LISTEN_FDNAMES is not used. The supervisor keeps the sockets open,
// so that no connection is refused while one server ends and the next begins.
//
// Invariant: what is taken is a listening TCP socket, non-blocking and not passed on to children.

import CLinux

/// Finds what was inherited.
enum InheritedSockets {
    /// Where inherited descriptors begin, by the protocol.
    private static let firstDescriptor: IOHandle = 3
    /// More than a unit file has listening lines.
    private static let maxSockets = 256

    /// Takes the sockets that are meant for this process, and the variables that tell of them: no
    /// child is to believe that they are its own. Call it once, before there are other threads.
    /// - Returns: none when there are none, or when they are meant for another process.
    /// - Throws: `ServerError.inheritedSocket` when what is passed is not what it should be.
    static func take(
        _ settings: ListenerSettings
    ) throws(ServerError) -> [ListeningSocket] {
        let process = value(of: "LISTEN_PID")
        let count = value(of: "LISTEN_FDS")
        for name in ["LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            unsetenv(name)
        }
        guard let process, let count, process == "\(getpid())" else { return [] }
        guard let count = Int(count), (0...maxSockets).contains(count) else {
            throw .inheritedSocket("LISTEN_FDS is not a number from 0 to \(maxSockets)")
        }
        var sockets: [ListeningSocket] = []
        for descriptor in firstDescriptor..<firstDescriptor + IOHandle(count) {
            if let objection = objection(to: descriptor) {
                throw .inheritedSocket("descriptor \(descriptor) of LISTEN_FDS \(objection)")
            }
            guard parley_own_descriptor(descriptor) == 0 else {
                throw .system(.init(call: "fcntl", code: parley_errno()))
            }
            sockets.append(ListeningSocket(inherited: descriptor, settings))
        }
        return sockets
    }

    private static func value(of name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    /// Why a descriptor is no listening TCP socket, or nil.
    static func objection(to descriptor: IOHandle) -> String? {
        guard let type = option(SO_TYPE, of: descriptor) else { return "is not an open socket" }
        let domain = option(SO_DOMAIN, of: descriptor)
        guard domain == AF_INET || domain == AF_INET6, type == Int32(SOCK_STREAM.rawValue),
            option(SO_PROTOCOL, of: descriptor) == Int32(IPPROTO_TCP)
        else { return "is not a TCP socket" }
        return option(SO_ACCEPTCONN, of: descriptor) == 1 ? nil : "does not listen"
    }

    private static func option(_ name: Int32, of descriptor: IOHandle) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        let result = getsockopt(descriptor, SOL_SOCKET, name, &value, &length)
        return result == 0 ? value : nil
    }
}
