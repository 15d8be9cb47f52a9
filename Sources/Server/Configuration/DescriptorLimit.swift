// How many descriptors this process may have open: RLIMIT_NOFILE, setrlimit(2). Every connection
// takes one; shells and service managers often start a process with 1,024 of them.

import CLinux

/// The process's limit of open descriptors.
enum DescriptorLimit {
    /// Descriptors beside the connections: listeners, epolls, logs, models and transfers. 64.
    static let reserved = 64

    /// Raises the limit as far as an unprivileged process may.
    /// - Returns: the limit in force from now on; nil when the kernel does not tell it.
    static func raise() -> Int? {
        guard var limit = current else { return nil }
        let before = Int(clamping: limit.rlim_cur)
        limit.rlim_cur = limit.rlim_max
        return set(limit) ? Int(clamping: limit.rlim_max) : before
    }

    /// The limits in force: `rlim_cur` counts, `rlim_max` is how far it may be raised.
    static var current: rlimit? {
        var limit = rlimit()
        return getrlimit(resource, &limit) == 0 ? limit : nil
    }

    /// Puts a limit in force; false when it is not allowed.
    static func set(_ limit: rlimit) -> Bool {
        var limit = limit
        return setrlimit(resource, &limit) == 0
    }

    /// Whether this many connections can be open under a limit.
    static func suffices(_ limit: Int, maxConnections: Int) -> Bool {
        limit - reserved >= maxConnections
    }

    /// How many connections fit the limit as far as it may be raised, at least 1. Where the limit
    /// is below 128, half of it is for connections.
    static func connections(atMost wanted: Int, hardLimit: rlim_t? = current?.rlim_max) -> Int {
        let limit = hardLimit.map { Int(clamping: $0) } ?? .max
        return max(1, min(wanted, limit - min(reserved, limit / 2)))
    }

    private static var resource: __rlimit_resource_t {
        __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    }
}
