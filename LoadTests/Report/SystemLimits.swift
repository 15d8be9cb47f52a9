// The kernel's limits for many connections on one machine, and what a run needs of each. They are
// printed before a large run, so that a limit that is too small is found before it stops the run.

import CLinux

/// A limit, and whether it suffices.
struct SystemLimit: Equatable {
    var name: String
    /// The kernel's value; nil when there is no such limit here.
    var value: Int?
    var needed: Int
    var reason: String

    /// Whether the limit is large enough for the run.
    var suffices: Bool { value.map { $0 >= needed } ?? true }

    /// The limits that matter for sessions on loopback.
    /// - Parameters:
    ///   - servers: server processes that the sessions are divided among.
    ///   - workers: generator processes.
    static func all(sessions: Int, servers: Int, workers: Int) -> [SystemLimit] {
        let perServer = (sessions + servers - 1) / servers
        let perWorker = (sessions + workers - 1) / workers
        let addresses = (sessions + 7_999) / 8_000 + workers
        return [
            SystemLimit(
                name: "open files of a process (ulimit -Hn)", value: raiseDescriptorLimit(),
                needed: max(perServer, perWorker) + 128,
                reason: "\(grouped(perServer)) sessions of a server, \(grouped(perWorker)) of a "
                    + "worker"),
            SystemLimit(
                name: "open files of all (fs.file-max)", value: number("/proc/sys/fs/file-max"),
                needed: sessions * 2 + 10_000, reason: "both ends of every session"),
            SystemLimit(
                name: "highest ulimit -n (fs.nr_open)", value: number("/proc/sys/fs/nr_open"),
                needed: max(perServer, perWorker) + 128, reason: "bounds the first"),
            SystemLimit(
                name: "tracked connections (nf_conntrack_max)",
                value: number("/proc/sys/net/netfilter/nf_conntrack_max"),
                needed: sessions + 1_000, reason: "one each, where connections are tracked"),
            SystemLimit(
                name: "waiting connections (net.core.somaxconn)",
                value: number("/proc/sys/net/core/somaxconn"), needed: 1_024,
                reason: "a server's listen-backlog"),
            SystemLimit(
                name: "ports (net.ipv4.ip_local_port_range × 127.0.1.1…200)",
                value: ports.map { $0 * 200 }, needed: addresses * 8_000,
                reason: "8,000 sessions leave from one address before the next is taken"),
            SystemLimit(
                name: "memory of TCP's buffers, KiB (net.ipv4.tcp_mem)",
                value: number("/proc/sys/net/ipv4/tcp_mem", word: 1).map { $0 * 4 },
                needed: sessions / 10, reason: "idle sockets use none; a tenth of a KiB for each"),
            SystemLimit(
                name: "memory available, MiB", value: meminfo("MemAvailable:").map { $0 / 1_024 },
                needed: (sessions * 12 + workers * 30_000 + servers * 20_000) / 1_024,
                reason: "12 kB a session for both sockets and both programs"),
        ]
    }

    /// The limits as a table.
    static func table(_ limits: [SystemLimit]) -> String {
        let head = "| limit | is | needed | for |\n|---|---|---|---|\n"
        return head
            + limits.map { limit in
                "| \(limit.name) | \(limit.value.map { grouped($0) } ?? "none") "
                    + "| \(grouped(limit.needed))\(limit.suffices ? "" : " **too little**") "
                    + "| \(limit.reason) |"
            }.joined(separator: "\n")
    }

    /// Bytes of the kernel's objects in use (sockets, files, entries of tables). Nil unless the
    /// process runs as root.
    static var kernelBytes: Int? {
        guard let bytes = try? readWholeFile("/proc/slabinfo") else { return nil }
        var sum = 0
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n").dropFirst(2) {
            let words = line.split(separator: " ")
            guard words.count > 3, let objects = Int(words[1]), let size = Int(words[3]) else {
                continue
            }
            sum += objects * size
        }
        return sum
    }

    /// The longest queue of a listening socket; 4,096, the kernel's default, where it is not known.
    static var waitingConnections: Int { number("/proc/sys/net/core/somaxconn") ?? 4_096 }

    private static var ports: Int? {
        let path = "/proc/sys/net/ipv4/ip_local_port_range"
        guard let low = number(path), let high = number(path, word: 1) else { return nil }
        return high - low + 1
    }

    private static func meminfo(_ name: String) -> Int? {
        readSmallFile("/proc/meminfo")?.split(separator: "\n").first { $0.hasPrefix(name) }?
            .split(separator: " ").dropFirst().first.flatMap { Int($0) }
    }

    private static func number(_ path: String, word: Int = 0) -> Int? {
        readSmallFile(path)?.split { $0 == " " || $0 == "\t" || $0 == "\n" }.dropFirst(word).first
            .flatMap { Int(clamping: UInt64($0) ?? 0) }
    }
}
