// The builds of a comparison: the commit of Parley's sources, and the versions of the peers.

import CLinux
import Foundation

/// The builds and versions that a run compares.
struct ClaimBuild: Codable {
    /// Parley's commit, and whether the sources had changes that are not in it.
    var parley = ""
    /// Name and version of each peer and of its libraries.
    var peers: [String] = []

    /// Asks the programs.
    /// - Parameter document: the run's own document, which does not make the sources differ.
    init(_ bench: ClaimBench, document: String) {
        func lines(_ command: [String]) -> [String] {
            (try? bench.output(of: command, name: command[0], within: 20)) ?? []
        }
        let tools = "\(bench.paths.environment)/bin"
        parley = Self.commit(
            head: lines(["git", "rev-parse", "--short=9", "HEAD"]).first,
            changes: lines(["git", "status", "--porcelain", "--", ".", ":!\(document)"]))
        if let node = lines(["\(tools)/node", "--version"]).first {
            peers.append("Node \(node.drop { $0 == "v" })")
        }
        if let ws = Self.debianWS { peers.append("ws \(ws)") }
        if let bun = lines(["\(tools)/bun", "--version"]).first { peers.append("Bun \(bun)") }
        peers += lines(["\(tools)/python", "-c", Self.pythonVersions])
        peers += Self.packages(
            in: (try? String(
                contentsOfFile: "\(bench.paths.peers)/nio/Package.swift", encoding: .utf8))
                ?? "")
        if let wrk = lines(["/usr/bin/wrk", "-v"]).first {
            peers.append(wrk.split(separator: " ").prefix(2).joined(separator: " "))
        }
    }

    /// The commit in words.
    static func commit(head: String?, changes: [String]) -> String {
        guard let head else { return "sources outside a git repository" }
        return changes.isEmpty
            ? "commit \(head)"
            : "commit \(head) with changes that are not in it (\(changes.count) files)"
    }

    /// Names and exact versions of a Swift package's dependencies.
    static func packages(in manifest: String) -> [String] {
        manifest.split(separator: "\n").compactMap { line in
            let parts = line.split(separator: "\"")
            guard parts.count > 3, parts[0].contains(".package(url:"), parts[2].contains("exact:")
            else { return nil }
            return "\(parts[1].split(separator: "/").last ?? "") \(parts[3])"
        }
    }

    private static var debianWS: String? {
        struct Package: Decodable { let version: String }
        let path = "/usr/share/nodejs/ws/package.json"
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        return (try? JSONDecoder().decode(Package.self, from: data))?.version
    }

    private static let pythonVersions = """
        import platform
        from importlib.metadata import version
        print("Python", platform.python_version())
        for name in "fastapi uvicorn uvloop httptools websockets picows aiohttp orjson".split():
            print(name, version(name))
        """
}
