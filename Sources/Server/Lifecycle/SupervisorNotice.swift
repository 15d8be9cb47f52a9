// Notices to a supervisor such as systemd (sd_notify(3), Type=notify): the server listens, or has
// begun to end. Each is one datagram to the socket that NOTIFY_SOCKET names. Without that variable
// nothing is sent. The server also runs where a notice cannot be delivered.

import CLinux

/// A message to the supervisor.
enum SupervisorNotice: String {
    /// Connections are accepted: services that wait for this one can start.
    case ready = "READY=1"
    /// The server drains, or stops.
    case stopping = "STOPPING=1"

    /// Sends it.
    func send() {
        guard let name = getenv("NOTIFY_SOCKET").map({ String(cString: $0) }) else { return }
        var path = Array(name.utf8)
        // A name of the abstract namespace begins with a zero byte, written as `@`.
        if path.first == UInt8(ascii: "@") { path[0] = 0 }
        guard let address = UnixAddress(path: path) else { return }
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
        let handle = socket(AF_UNIX, type, 0)
        guard handle >= 0 else { return }
        defer { close(handle) }
        address.withPointer {
            _ = sendto(handle, rawValue, rawValue.utf8.count, Int32(MSG_NOSIGNAL), $0, $1)
        }
    }
}
