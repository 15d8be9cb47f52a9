// A listening TCP socket: resolving, binding, and telling a person why it cannot be done.

import CLinux
import Codec
import Session

/// Where to listen: a socket address without its port.
struct ListeningAddress {
    fileprivate var storage = sockaddr_storage()
    fileprivate var length: socklen_t = 0

    fileprivate var family: Int32 { Int32(storage.ss_family) }

    /// The port lies at the same offset in both families (RFC 3493 §3.3 keeps it so).
    fileprivate mutating func setPort(_ port: Int) {
        withUnsafeMutableBytes(of: &storage) {
            $0.storeBytes(of: UInt16(port).bigEndian, toByteOffset: 2, as: UInt16.self)
        }
    }

    /// Tells this address with a port from all others of the machine. A link-local address has the
    /// number of its interface.
    func name(withPort port: Int) -> String {
        let scope = withUnsafeBytes(of: storage) {
            $0.loadUnaligned(as: sockaddr_in6.self).sin6_scope_id
        }
        return "\(address)\(scope == 0 ? "" : "%\(scope)"):\(port)"
    }

    /// The address without its port.
    var address: NetworkAddress {
        withUnsafeBytes(of: storage) { NetworkAddress($0.loadUnaligned(as: sockaddr_in6.self)) }
    }

    fileprivate func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result)
        -> Result
    {
        withUnsafeBytes(of: storage) {
            body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), length)
        }
    }
}

/// A bound and listening socket. Closed when it goes away, unless `release()` gave it to a shard.
final class ListeningSocket {
    private(set) var handle: IOHandle
    /// The port, chosen by the kernel if 0 was asked for.
    let port: Int
    /// Where it listens.
    let address: NetworkAddress

    /// Binds and listens. Several of a server share a port; the kernel spreads connections.
    init(
        _ address: ListeningAddress, port: Int, _ settings: ListenerSettings
    ) throws(ServerError) {
        var address = address
        address.setPort(port)
        let handle = try ListeningSocket.bind(address, sharesPort: true, settings)
        guard CLinux.listen(handle, Int32(clamping: settings.backlog)) == 0 else {
            let code = parley_errno()
            close(handle)
            throw ListeningSocket.error(code, "listen", settings)
        }
        ListeningSocket.setConnectionOptions(handle, settings)
        self.handle = handle
        (self.address, self.port) = ListeningSocket.name(of: handle)
    }

    /// Takes over a socket that listens already.
    init(inherited handle: IOHandle, _ settings: ListenerSettings) {
        ListeningSocket.setConnectionOptions(handle, settings)
        self.handle = handle
        (address, port) = ListeningSocket.name(of: handle)
    }

    /// Takes over a socket of another server, with this one's settings.
    convenience init(passedOn handle: IOHandle, _ settings: ListenerSettings) {
        // On a listening socket the call changes nothing but the backlog.
        _ = CLinux.listen(handle, Int32(clamping: settings.backlog))
        self.init(inherited: handle, settings)
    }

    private static func name(of handle: IOHandle) -> (NetworkAddress, port: Int) {
        var bound = ListeningAddress()
        bound.length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        withUnsafeMutableBytes(of: &bound.storage) {
            let pointer = $0.baseAddress!.assumingMemoryBound(to: sockaddr.self)
            _ = getsockname(handle, pointer, &bound.length)
        }
        let port = withUnsafeBytes(of: bound.storage) {
            Int(UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)))
        }
        return (bound.address, port)
    }

    /// Sets what every connection of a listening socket has from it (tcp(7)): once here instead of
    /// two calls per accept. Other families than TCP refuse it and do without.
    static func setConnectionOptions(_ handle: IOHandle, _ settings: ListenerSettings) {
        let size = socklen_t(MemoryLayout<Int32>.size)
        // Small writes are not delayed: the server gathers a tick's output itself.
        var on: Int32 = 1
        setsockopt(handle, Int32(IPPROTO_TCP), TCP_NODELAY, &on, size)
        var timeout = Int32(clamping: settings.unacknowledgedTimeout.wholeMilliseconds)
        setsockopt(handle, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &timeout, size)
        // A kernel that does not know it only buffers more.
        var unsent = Int32(clamping: settings.maxUnsentSocketBytes)
        setsockopt(handle, Int32(IPPROTO_TCP), TCP_NOTSENT_LOWAT, &unsent, size)
    }

    deinit { if handle >= 0 { close(handle) } }

    /// Gives the socket away.
    func release() -> IOHandle {
        defer { handle = -1 }
        return handle
    }

    /// Finds the address of the host of the settings.
    static func resolve(_ settings: ListenerSettings) throws(ServerError)
        -> ListeningAddress
    {
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(settings.host, nil, &hints, &found) == 0, let first = found else {
            throw .unknownHost(settings.host)
        }
        defer { freeaddrinfo(found) }
        var address = ListeningAddress()
        address.length = first.pointee.ai_addrlen
        withUnsafeMutableBytes(of: &address.storage) {
            $0.copyMemory(
                from: UnsafeRawBufferPointer(
                    start: first.pointee.ai_addr, count: Int(first.pointee.ai_addrlen)))
        }
        return address
    }

    /// Sockets that share a port would also share it with another process by mistake, which then
    /// gets half of the connections. A socket that does not share finds out.
    static func checkUnused(
        _ address: ListeningAddress, _ settings: ListenerSettings
    ) throws(ServerError) {
        guard settings.port != 0 else { return }
        var address = address
        address.setPort(settings.port)
        close(try bind(address, sharesPort: false, settings))
    }

    private static func bind(
        _ address: ListeningAddress, sharesPort: Bool, _ settings: ListenerSettings
    ) throws(ServerError) -> IOHandle {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let handle = socket(address.family, type, 0)
        guard handle >= 0 else { throw error(parley_errno(), "socket", settings) }
        var on: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        // Connections of an earlier run that linger in TIME_WAIT are no obstacle.
        setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &on, size)
        if sharesPort { setsockopt(handle, SOL_SOCKET, SO_REUSEPORT, &on, size) }
        guard address.withPointer({ CLinux.bind(handle, $0, $1) }) == 0 else {
            let code = parley_errno()
            close(handle)
            throw error(code, "bind", settings)
        }
        return handle
    }

    private static func error(
        _ code: Int32, _ call: String, _ settings: ListenerSettings
    ) -> ServerError {
        switch code {
        case EADDRINUSE: .portInUse(host: settings.host, port: settings.port)
        case EACCES: .portForbidden(port: settings.port)
        case EADDRNOTAVAIL: .unknownHost(settings.host)
        default: .system(.init(call: call, code: code))
        }
    }
}
