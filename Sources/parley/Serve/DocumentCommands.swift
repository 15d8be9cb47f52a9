// `parley asyncapi` and `parley openapi` print the documents that a server with default settings
// serves at /asyncapi.json and /openapi.json. No server is needed; Server makes the documents.

import ArgumentParser
import Codec
import Server

/// `parley asyncapi`
struct AsyncAPICommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "asyncapi", abstract: "Print the AsyncAPI document of the WebSocket.")

    func run() throws {
        let document = AsyncAPIDocument(configuration: ServerConfiguration())
        print(document.write(into: ByteWriter(capacity: 65_536)).text())
    }
}

/// `parley openapi`
struct OpenAPICommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "openapi", abstract: "Print the OpenAPI document of the HTTP routes.")

    func run() throws {
        let document = OpenAPIDocument(configuration: ServerConfiguration())
        print(document.write(into: ByteWriter(capacity: 16_384)).text())
    }
}

extension ByteWriter {
    /// The bytes as text.
    fileprivate consuming func text() -> String {
        String(decoding: copiedBytes, as: UTF8.self)
    }
}
