// Where a server finds its models.

import Testing

@testable import parley

@Suite struct ModelsFolderTests {
    private func find(
        _ files: Set<String>, named: String? = nil, environment: [String: String] = [:],
        executable: String = "/srv/parley/bin/parley"
    ) -> ModelsFolder {
        ModelsFolder(
            named: named, variable: { environment[$0] }, executable: executable
        ) {
            files.contains($0)
        }
    }

    @Test(arguments: [
        "models", "/srv/parley/bin/models", "/srv/parley/share/parley/models",
        "/users/ann/.local/share/parley/models", "/usr/local/share/parley/models",
        "/usr/share/parley/models",
    ])
    func eachPlaceIsFound(place: String) {
        let folder = find(["\(place)/silero_vad.bin"], environment: ["HOME": "/users/ann"])
        #expect(folder.path == place)
        #expect(folder.tried.last == place)
    }

    @Test func aCheckoutIsFoundFromItsBuild() {
        let folder = find(
            ["/src/parley/models/silero_vad.bin"],
            executable: "/src/parley/.build/x86_64-unknown-linux-gnu/release/parley")
        #expect(folder.path == "/src/parley/models")
    }

    @Test func theVariablesOfXDGCount() {
        let environment = [
            "XDG_DATA_HOME": "/data", "XDG_DATA_DIRS": "/a:relative:/b", "HOME": "/h",
        ]
        let folder = find([], environment: environment)
        #expect(
            folder.tried == [
                "models", "/srv/parley/bin/models", "/srv/parley/share/parley/models",
                "/data/parley/models", "/a/parley/models", "/b/parley/models",
            ])
        #expect(folder.path == "models")
    }

    @Test func aNamedFolderIsTheOnlyOne() {
        let folder = find(["models/silero_vad.bin"], named: "/elsewhere")
        #expect(folder.path == "/elsewhere")
        #expect(folder.tried == ["/elsewhere"])
    }
}
