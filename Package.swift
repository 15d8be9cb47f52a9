// swift-tools-version: 6.2
import PackageDescription

// The layers, from pure to shell; imports only point up this list (Tests/TidyTests enforces it):
// Codec → Session → Agents → Server → Records → parley. LoadTests is a black-box client: Codec, never
// Server.
//
// Warnings are errors for `make test` (PARLEY_STRICT=1) but not for users, whose newer compiler may
// know warnings that do not exist yet.
let warningsAreErrors = Context.environment["PARLEY_STRICT"] == "1"
let strict: [SwiftSetting] =
    [.enableUpcomingFeature("ExistentialAny")]
    + (warningsAreErrors ? [.treatAllWarnings(as: .error)] : [])
// The tests spend half of their time in the voice activity model, which takes ten times as long
// unoptimised. So their builds optimise its module and keep its assertions.
let optimised: [SwiftSetting] =
    warningsAreErrors
    ? [.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))] : []
let optimisedC: [CSetting] =
    warningsAreErrors ? [.unsafeFlags(["-O2"], .when(configuration: .debug))] : []
let strictCXX: [CXXSetting] = warningsAreErrors ? [.treatAllWarnings(as: .error)] : []
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
    name: "parley",
    products: [
        .executable(name: "parley", targets: ["parley"]),
        .library(name: "Parley", targets: ["Codec", "Session", "Agents", "Server", "Records"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        // The load harness alone: what it measures.
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // System libraries: header-only, no logic.
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "COpus", pkgConfig: "opus", providers: [.apt(["libopus-dev"])]),
        .systemLibrary(
            name: "CSpeexDSP", pkgConfig: "speexdsp", providers: [.apt(["libspeexdsp-dev"])]),
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CFlite", providers: [.apt(["flite1-dev"])]),
        .systemLibrary(
            name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CONNXRuntime"),
        // Without its pkg-config file, which has a flag that SwiftPM refuses.
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(
            name: "CPostgreSQL", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        // The one reader of YAML: configuration, scenarios of the load harness, tests' conversations.
        .target(name: "YAML", dependencies: ["CYAML"], swiftSettings: strict),
        .target(name: "CNativeMemory", dependencies: ["CCurl", "COpenSSL"]),
        .target(name: "CDense", cSettings: optimisedC),
        .target(name: "CVoiceSignal", cSettings: optimisedC),
        .target(
            name: "CSimdjson", cxxSettings: strictCXX,
            linkerSettings: [.linkedLibrary("simdjson")]),

        .target(
            name: "Codec",
            dependencies: ["CHiredis", "COpenSSL", "COpus", "CSpeexDSP", "CSimdjson", "CZlib"],
            swiftSettings: strict),
        .target(
            name: "Session", dependencies: ["Codec", "CDense"], swiftSettings: strict + optimised),
        .target(
            name: "Agents",
            dependencies: [
                "Codec", "Session", "CLinux", "CFlite", "CONNXRuntime", "CVoiceSignal",
            ],
            resources: [.embedInCode("Jobs/Scripts")], swiftSettings: strict),
        .target(
            name: "Server",
            dependencies: [
                "Codec", "Session", "Agents", "CLinux", "CCurl", "CNativeMemory", "COpenSSL",
                logging,
            ],
            resources: [.embedInCode("Resources")], swiftSettings: strict),
        .target(
            name: "Records",
            dependencies: [
                "Codec", "Session", "Agents", "Server", "CLinux", "CCurl", "CNativeMemory",
                "COpenSSL", "CPostgreSQL", "CSQLite", logging,
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "parley",
            dependencies: [
                "Codec", "Session", "Agents", "Server", "Records", "CLinux", "COpenSSL", "YAML",
                arguments,
                logging,
            ],
            swiftSettings: strict,
            linkerSettings: [
                // The static library of Swift exports every symbol. No plugin reads them, and
                // their tables take 0.4 MB of the memory at rest.
                .unsafeFlags(
                    ["-Xlinker", "--no-export-dynamic"], .when(configuration: .release))
            ]),
        .executableTarget(
            name: "parley-load",
            dependencies: [
                "Codec", "Session", "CLinux", "COpenSSL", "YAML", arguments,
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            path: "LoadTests",
            exclude: [
                "CLAIMS.md", "RESULTS.md", "calls", "chaos", "floods", "languages", "network",
                "operators", "outages", "peers", "phonemes", "results", "scenarios",
            ],
            swiftSettings: strict),

        // Examples are built with everything else, so that they stay true.
        .executableTarget(
            name: "receptionist", dependencies: ["Session", "Agents", "Server", logging],
            path: "examples/Receptionist", swiftSettings: strict),
        .executableTarget(
            name: "worker", dependencies: ["Codec"], path: "examples/worker",
            exclude: ["README.md", "requirements.txt", "worker.py"],
            resources: [.embedInCode("lua")], swiftSettings: strict),

        // What tests of all layers read: recordings, the protocol's schema, tokens, seeds.
        .target(
            name: "TestMaterial", dependencies: ["Codec", "COpenSSL"], path: "Tests/TestMaterial",
            swiftSettings: strict),
        // A real shard on a simulated kernel.
        .target(
            name: "Simulation",
            dependencies: [
                "Codec", "Session", "Server", "TestMaterial", "CLinux", "COpenSSL", logging,
            ],
            path: "Tests/Simulation", swiftSettings: strict),
        // The fuzz targets: FuzzTests and libFuzzer's program run them.
        .target(
            name: "Fuzz", dependencies: ["Codec", "Session", "Server", "Simulation", "CLinux"],
            path: "Tests/Fuzz", exclude: ["Dictionaries"], swiftSettings: strict),
        // A report, not a test: turn detection on recordings (`make turn-table`).
        .executableTarget(
            name: "turn-table", dependencies: ["Codec", "Session", "Agents", "TestMaterial"],
            path: "Tests/TurnTable", swiftSettings: strict),
        // The same: the embedded voices side by side (`make bench-voices`).
        .executableTarget(
            name: "voice-table", dependencies: ["Codec", "Session", "Agents", "TestMaterial"],
            path: "Tests/VoiceTable", swiftSettings: strict),
        // The same: the natural voice's phonemes beside those of its own front end (`make
        // phoneme-table`).
        .executableTarget(
            name: "phoneme-table", dependencies: ["Agents"], path: "Tests/PhonemeTable",
            swiftSettings: strict),
        // The same: the recognisers on recordings in five languages (`make bench-languages`).
        .executableTarget(
            name: "language-table", dependencies: ["Codec", "Session", "Agents", "CLinux"],
            path: "Tests/LanguageTable", swiftSettings: strict),
        // The same: a million sessions on a simulated kernel (`make million`).
        .executableTarget(
            name: "session-census",
            dependencies: ["Codec", "Session", "Server", "CLinux", arguments, logging],
            path: "Tests/Million", swiftSettings: strict),
        .testTarget(
            name: "CodecTests", dependencies: ["Codec", "COpus", "CLinux", "TestMaterial"],
            swiftSettings: strict),
        .testTarget(
            name: "SessionTests",
            dependencies: ["Session", "Codec", "COpus", "CLinux", "TestMaterial"],
            swiftSettings: strict),
        .testTarget(
            name: "AgentsTests",
            dependencies: ["Agents", "Codec", "Session", "TestMaterial", "CFlite", "CVoiceSignal"],
            swiftSettings: strict),
        .testTarget(
            name: "ServerTests",
            dependencies: [
                "Server", "Agents", "Simulation", "TestMaterial", "CLinux", "COpenSSL", logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "RecordsTests",
            dependencies: [
                "Records", "Codec", "Session", "Server", "Simulation", "CLinux", "CSQLite",
                "TestMaterial", logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ParleyTests",
            dependencies: ["parley", "Codec", "Server", "Session", "TestMaterial", logging],
            swiftSettings: strict),
        // Conversations as data, on the virtual clock; Tests/clients runs the same in real time.
        .testTarget(
            name: "ConversationTests",
            dependencies: ["Server", "Session", "Codec", "Simulation", "TestMaterial", "YAML"],
            swiftSettings: strict),
        .testTarget(
            name: "FuzzTests", dependencies: ["Fuzz", "TestMaterial"], swiftSettings: strict),
        .testTarget(
            name: "HarnessTests", dependencies: ["parley-load", "Codec"], swiftSettings: strict),
        .testTarget(name: "TidyTests"),
    ],
    swiftLanguageModes: [.v6],
    cxxLanguageStandard: .cxx20
)

// `make unit` names test targets: the package is then these, and what they are made of. Building all
// of it to run the tests of one layer takes minutes where an interface has changed.
if let tests = Context.environment["PARLEY_TESTS"] {
    func names(_ dependency: Target.Dependency) -> [String] {
        switch dependency {
        case .targetItem(let name, _), .byNameItem(let name, _): [name]
        default: []
        }
    }
    var wanted = Set(tests.split(separator: " ").map(String.init))
    while true {
        let needed = package.targets.filter { wanted.contains($0.name) }
            .flatMap { $0.dependencies.flatMap(names) }
        if wanted.isSuperset(of: needed) { break }
        wanted.formUnion(needed)
    }
    package.targets.removeAll { !wanted.contains($0.name) }
    package.products = []
}

// libFuzzer's program links with `--sanitize=fuzzer` only, so that an ordinary build must not see it.
// `make fuzz` sets the variable. The option's main function calls the program's two entry points; a
// program of one file would have a main function of its own.
if Context.environment["PARLEY_FUZZ"] == "1" {
    package.targets += [
        .executableTarget(
            name: "parley-fuzz", dependencies: ["Fuzz", "TestMaterial", "CLinux"],
            path: "Tests/FuzzProgram",
            swiftSettings: strict + [.unsafeFlags(["-parse-as-library"])])
    ]
}
