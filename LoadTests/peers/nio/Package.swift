// swift-tools-version: 6.2
import PackageDescription

// A package of its own: Parley itself has nothing to do with SwiftNIO. scripts/setup-peers.sh
// builds it into .build-nio. Pinned, so that a table can be reproduced.
let package = Package(
    name: "nio-agent",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
    ],
    targets: [
        .executableTarget(
            name: "nio-agent",
            dependencies: [
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOFoundationCompat", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
