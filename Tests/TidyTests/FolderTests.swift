// Holds the folders to their promises: each is small enough to be seen at a glance, file names are
// unique, and ARCHITECTURE.md shows the tree as it is.

import Testing

@Suite("Folders")
struct FolderTests {
    /// Above this number of files a folder is about more than one subject.
    private static let maxFiles = 20

    private static let layers = [
        "Sources/Codec", "Sources/Session", "Sources/Agents", "Sources/Server", "Sources/Records",
        "Sources/parley",
    ]

    @Test("No folder holds more than 20 Swift files")
    func foldersAreSmall() throws {
        let crowded = FolderTree(try Repository.files().map(\.path)).folders(above: Self.maxFiles)
        #expect(crowded == [])
    }

    @Test("No two Swift files share a name")
    func namesAreUnique() throws {
        #expect(FolderTree(try Repository.files().map(\.path)).sharedNames == [])
    }

    @Test("ARCHITECTURE.md names every folder of every layer, and no other")
    func architectureShowsTheTree() throws {
        let files = try Repository.files()
        let document = try #require(files.first { $0.path == "ARCHITECTURE.md" })
        let shown = try #require(FolderTree.shown(in: document.text))
        let tree = FolderTree(files.map(\.path))
        for layer in Self.layers {
            let name = String(layer.drop { $0 != "/" }.dropFirst())
            #expect(shown[name] == tree.subfolders(of: layer), "the folders of \(name)")
        }
    }

    @Test("The checks can fail")
    func checksCanFail() throws {
        let paths = (1...21).map { "Sources/A/B/\($0).swift" } + ["Sources/A/C/7.swift", "a.md"]
        let tree = FolderTree(paths)
        #expect(tree.folders(above: 20) == ["Sources/A/B"])
        #expect(tree.folders(above: 21).isEmpty)
        #expect(tree.sharedNames == ["7.swift"])
        #expect(tree.subfolders(of: "Sources/A") == ["B", "C"])
        let text = "Text.\n```tree\nA/   B/ C/ (what)\n     D/\nE/   F/\n```\nA/ Z/"
        #expect(FolderTree.shown(in: text) == ["A": ["B", "C", "D"], "E": ["F"]])
        #expect(FolderTree.shown(in: "no tree") == nil)
    }
}

/// The folders of a list of paths.
private struct FolderTree {
    /// File names by the folder that they lie in.
    private let files: [String: [String]]

    init(_ paths: [String]) {
        var files: [String: [String]] = [:]
        for path in paths {
            let parts = path.split(separator: "/")
            files[parts.dropLast().joined(separator: "/"), default: []].append(String(parts.last!))
        }
        self.files = files
    }

    func folders(above limit: Int) -> [String] {
        files.filter { $0.value.count { $0.hasSuffix(".swift") } > limit }.map(\.key).sorted()
    }

    var sharedNames: [String] {
        let names = files.values.joined().filter { $0.hasSuffix(".swift") && $0 != "Package.swift" }
        return Dictionary(grouping: names) { $0 }.filter { $0.value.count > 1 }.map(\.key).sorted()
    }

    /// The folders right inside of another.
    func subfolders(of folder: String) -> Set<String> {
        let inside = files.keys.filter { $0.hasPrefix(folder + "/") }
        return Set(inside.map { String($0.dropFirst(folder.count + 1).prefix { $0 != "/" }) })
    }

    /// The tree of a document: a fenced block `tree`, in which a line that is not indented begins a
    /// layer, and every word that ends in `/` is one of its folders. Nil where there is none.
    static func shown(in document: String) -> [String: Set<String>]? {
        let lines = document.split(separator: "\n", omittingEmptySubsequences: false)
        guard let start = lines.firstIndex(of: "```tree"),
            let end = lines[(start + 1)...].firstIndex(of: "```")
        else { return nil }
        var layers: [String: Set<String>] = [:]
        var layer = ""
        for line in lines[(start + 1)..<end] {
            var names = line.split(separator: " ").filter { $0.hasSuffix("/") }
                .map { String($0.dropLast()) }
            if line.first != " ", !names.isEmpty { layer = names.removeFirst() }
            layers[layer, default: []].formUnion(names)
        }
        return layers
    }
}
