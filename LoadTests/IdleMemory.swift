// Memory per idle connection: the growth of a server's memory, as the kernel reports it, when many
// silent WebSockets are open. The sockets' own memory belongs to the kernel and is not included.

import ArgumentParser
import CLinux
import Foundation

/// `parley-load memory`: user space per idle connection.
struct IdleMemoryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "memory",
        abstract: "Measure the server's memory per idle WebSocket.",
        discussion: """
            Starts a server of its own, opens the connections (all of them first, and only then \
            upgrades them, as after a restart), and prints the growth of its anonymous memory per \
            connection (smaps_rollup). Some connections are opened and closed first, so that buffers that \
            all connections share are not counted.
            """)

    @Option(help: "Idle connections.")
    var connections = 10_000

    @Option(help: "Their path: /debug/echo has no session, /v1/realtime has.")
    var path = "/debug/echo"

    @Option(help: "The server's port.")
    var port: UInt16 = 9160

    @Option(help: "Parley's binary.")
    var parley = ".build/release/parley"

    func validate() throws {
        guard (1...19_000).contains(connections) else {
            throw ValidationError("--connections is 1…19000")
        }
    }

    func run() throws {
        do throws(LoadFailure) {
            print(try measure())
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }

    private func measure() throws(LoadFailure) -> String {
        let server = try PinnedProcess(
            [
                parley, "serve", "--host", "127.0.0.1", "--port", "\(port)", "--shards", "1",
                "--debug-echo", "true", "--log-level", "warning",
            ], core: 0)
        try server.awaitListening(on: port, name: "Parley")
        let target = EchoTarget(
            wire: .webSocket(path: path), port: port, process: server.identifier)
        for descriptor in try open(min(200, connections), to: target) { close(descriptor) }
        settle()
        let before = try MemoryMap(of: server.identifier)
        let descriptors = try open(connections, to: target)
        settle()
        let after = try MemoryMap(of: server.identifier)
        for descriptor in descriptors { close(descriptor) }
        let count = Double(connections)
        func row(_ title: String, _ value: (MemoryMap) -> Int) -> String {
            let growth = Double(value(after) - value(before)) / count
            return "| \(title) | \(value(before) / 1024) | \(value(after) / 1024) "
                + "| \(Int(growth.rounded())) |"
        }
        return """
            | \(connections) idle WebSockets at \(path) | before, KiB | with them, KiB \
            | bytes per connection |
            |---|---|---|---|
            \(row("anonymous memory (Anonymous)", \.anonymous))
            \(row("resident (Rss)", \.resident))
            """
    }

    private func open(_ count: Int, to target: EchoTarget) throws(LoadFailure) -> [Int32] {
        var descriptors: [Int32] = []
        for _ in 0..<count { descriptors.append(try target.connect()) }
        settle()
        try target.upgrade(descriptors)
        return descriptors
    }

    /// Waits a second, until the server has finished its work.
    private func settle() { poll(nil, 0, 1_000) }
}

/// Sums over a process's memory maps, in bytes.
struct MemoryMap {
    let resident: Int
    let anonymous: Int

    /// Reads /proc/PID/smaps_rollup.
    init(of process: Int32) throws(LoadFailure) {
        guard let text = readSmallFile("/proc/\(process)/smaps_rollup") else {
            throw LoadFailure("the server has ended")
        }
        func bytes(_ name: String) -> Int {
            for line in text.split(separator: "\n") where line.hasPrefix(name) {
                return (line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0)
                    * 1024
            }
            return 0
        }
        resident = bytes("Rss:")
        anonymous = bytes("Anonymous:")
    }
}
