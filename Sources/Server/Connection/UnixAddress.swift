// The address of a Unix socket, as system calls take it.

import CLinux

/// A path, or a name of the abstract namespace, which begins with a zero byte (unix(7)).
struct UnixAddress {
    private var storage = sockaddr_un()
    private let length: socklen_t

    /// - Returns: nil where the path is empty or too long.
    init?(path: [UInt8]) {
        let room = MemoryLayout.size(ofValue: storage.sun_path)
        guard !path.isEmpty, path.count < room else { return nil }
        storage.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &storage.sun_path) { $0.copyBytes(from: path) }
        length = socklen_t(MemoryLayout.offset(of: \sockaddr_un.sun_path)! + path.count)
    }

    /// Calls `body` with the address and its length.
    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafeBytes(of: storage) {
            body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), length)
        }
    }
}
