// The layers: who may import what. A list of what is allowed, so that a new dependency is a
// decision that is made here and in Package.swift.

/// One layer: a folder and the modules that its files may import.
struct Layer {
    let folder: String
    let imports: Set<String>
}

extension TidyRule {
    /// From pure to shell; each may use the ones above it (ARCHITECTURE.md tells why). Nothing that
    /// ships imports Foundation, Dispatch or NIO: a server without them starts in a millisecond,
    /// allocates only what it says, and is a third of the size.
    private static var layers: [Layer] {
        let language: Set = ["Glibc", "Synchronization"]
        return [
            Layer(folder: "Sources/YAML", imports: language.union(["CYAML"])),
            Layer(
                folder: "Sources/Codec",
                imports: language.union([
                    "CHiredis", "COpenSSL", "COpus", "CSimdjson", "CSpeexDSP", "CZlib",
                ])),
            Layer(folder: "Sources/Session", imports: language.union(["Codec", "CDense"])),
            Layer(
                folder: "Sources/Agents",
                imports: language.union([
                    "Codec", "Session", "CFlite", "CLinux", "CONNXRuntime",
                    "CVoiceSignal",
                ])),
            Layer(
                folder: "Sources/Server",
                imports: language.union([
                    "Codec", "Session", "Agents", "CCurl", "CLinux", "CNativeMemory", "COpenSSL",
                    "Logging",
                ])),
            Layer(
                folder: "Sources/Records",
                imports: language.union([
                    "Codec", "Session", "Agents", "Server", "CCurl", "CLinux", "CNativeMemory",
                    "COpenSSL", "CPostgreSQL", "CSQLite", "Logging",
                ])),
            Layer(
                folder: "Sources/parley",
                imports: language.union([
                    "Codec", "Session", "Agents", "Server", "Records", "ArgumentParser", "CLinux",
                    "COpenSSL",
                    "Logging", "YAML",
                ])),
            // A black box: it may share the codec with the server, and Session's voice activity for
            // its bare cost, but none of its behaviour.
            Layer(
                folder: "LoadTests",
                imports: language.union([
                    "Codec", "Session", "ArgumentParser", "CLinux", "COpenSSL", "Foundation",
                    "Histogram", "YAML",
                ])),
        ]
    }

    static let imports = TidyRule(
        name: "imports point up the layers",
        bad: [
            TextFile(path: "Sources/Codec/A.swift", text: "import Session\n"),
            TextFile(path: "Sources/Codec/A.swift", text: "import Foundation\n"),
            TextFile(path: "Sources/Session/A.swift", text: "internal import Dispatch\n"),
            TextFile(path: "Sources/Agents/A.swift", text: "import Server\n"),
            TextFile(path: "Sources/Server/A.swift", text: "@preconcurrency import NIOCore\n"),
            TextFile(path: "Sources/Server/A.swift", text: "  import struct Foundation.Data\n"),
            TextFile(path: "Sources/Server/A.swift", text: "import Records\n"),
            TextFile(path: "Sources/parley/A.swift", text: "import Foundation\n"),
            TextFile(path: "LoadTests/A.swift", text: "import Server\n"),
            TextFile(path: "Sources/Unlisted/A.swift", text: "import Codec\n"),
        ],
        good: [
            TextFile(path: "Sources/Server/A.swift", text: "import Codec\nimport Logging\n"),
            TextFile(path: "Sources/Session/A.swift", text: "// import Foundation\n"),
            TextFile(path: "Sources/Session/A.swift", text: "let important = 1\n"),
            TextFile(path: "Tests/CodecTests/A.swift", text: "import Foundation\n"),
            TextFile(path: "Sources/parley/A.swift", text: "public import struct Logging.Logger\n"),
            TextFile(path: "LoadTests/peers/nio/A.swift", text: "import NIOCore\n"),
        ]
    ) { file in
        guard file.isSwift, file.isIn("Sources") || file.isIn("LoadTests") else { return [] }
        // The servers that Parley is compared with are packages of their own.
        guard !file.isIn("LoadTests/peers") else { return [] }
        let layer = layers.first { file.isIn($0.folder) }
        return file.code.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
            .compactMap { index, line in
                guard let module = importedModule(line) else { return nil }
                guard let layer else {
                    let message = "this folder is in no layer: add it to LayerRule.swift"
                    return Violation(path: file.path, line: index + 1, message: message)
                }
                guard !layer.imports.contains(module) else { return nil }
                let message = "\(layer.folder) may not import \(module)"
                return Violation(path: file.path, line: index + 1, message: message)
            }
    }

    /// The module of an import declaration, or nil for any other line.
    private static func importedModule(_ line: Substring) -> String? {
        guard line.holds("import") else { return nil }
        let words = line.split(separator: " ")
        guard let keyword = words.firstIndex(of: "import"), keyword + 1 < words.count else {
            return nil
        }
        // Only attributes and access levels stand before the keyword.
        let levels: Set<Substring> = [
            "public", "package", "internal", "fileprivate", "private",
        ]
        guard words[..<keyword].allSatisfy({ $0.hasPrefix("@") || levels.contains($0) }) else {
            return nil
        }
        let kinds: Set<Substring> = [
            "struct", "class", "enum", "protocol", "typealias", "func", "let", "var",
        ]
        let named = words[keyword + 1]
        let path = kinds.contains(named) && keyword + 2 < words.count ? words[keyword + 2] : named
        return path.split(separator: ".").first.map(String.init)
    }
}
