// System calls that the harness's loops share: waiting for events until a deadline in nanoseconds,
// listening, and raising the limit of descriptors.

import CLinux

/// Waits for events until a deadline.
/// - Returns: the number of events; 0 when the deadline has passed.
/// - Throws: `LoadFailure` when the kernel refuses.
func waitForEvents(
    _ epoll: Int32, _ events: inout [epoll_event], until deadline: Int64
) throws(LoadFailure) -> Int {
    let left = max(0, deadline - monotonicNanoseconds())
    // epoll_wait takes only milliseconds; packets must be sent more precisely than that.
    var time = timespec(
        tv_sec: Int(left / 1_000_000_000), tv_nsec: Int(left % 1_000_000_000))
    let count = epoll_pwait2(epoll, &events, Int32(events.count), &time, nil)
    guard count >= 0 || parley_errno() == EINTR else { throw .system("epoll_pwait2") }
    return Int(max(0, count))
}

/// Listens on a port of 127.0.0.1, without blocking.
/// - Throws: `LoadFailure` when the port is taken.
func listenOnLoopback(_ port: UInt16) throws(LoadFailure) -> Int32 {
    let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
    let listener = socket(AF_INET, Int32(type), 0)
    guard listener >= 0 else { throw .system("socket") }
    var yes: Int32 = 1
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
    let status = withLoopbackName(INADDR_LOOPBACK, port) { bind(listener, $0, $1) }
    guard status == 0, listen(listener, 4_096) == 0 else {
        let failure = LoadFailure.system("cannot listen on 127.0.0.1:\(port)")
        close(listener)
        throw failure
    }
    return listener
}

/// Calls `body` with a socket address of IPv4.
/// - Parameters:
///   - address: in the host's byte order.
///   - port: in the host's byte order.
func withLoopbackName<Result>(
    _ address: UInt32, _ port: UInt16,
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result {
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_addr.s_addr = address.bigEndian
    name.sin_port = port.bigEndian
    return withUnsafePointer(to: name) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
}

/// Raises the limit of open descriptors to the hard limit, for this process and those it starts.
/// - Returns: the new limit.
@discardableResult
func raiseDescriptorLimit() -> Int {
    let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard getrlimit(descriptors, &limit) == 0 else { return 1_024 }
    limit.rlim_cur = limit.rlim_max
    setrlimit(descriptors, &limit)
    return getrlimit(descriptors, &limit) == 0 ? Int(clamping: limit.rlim_cur) : 1_024
}
