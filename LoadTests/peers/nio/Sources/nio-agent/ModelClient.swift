// The model: chat completions over server-sent events through AsyncHTTPClient.

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOFoundationCompat

struct ChatMessage: Codable, Sendable {
    var role: String
    var content: String
}

struct ModelClient: Sendable {
    private struct Request: Encodable {
        var model = "scripted"
        var stream = true
        var messages: [ChatMessage]
    }

    private struct Chunk: Decodable {
        struct Choice: Decodable {
            struct Delta: Decodable { var content: String? }
            var delta: Delta
        }
        var choices: [Choice]
    }

    struct Refused: Error { var status: UInt }

    private let url: String
    private let client: HTTPClient

    init(url: String) {
        self.url = url
        // By default eight connections to a host are kept open, and more are closed after use.
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 20_000
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Streams a reply; ends early when its task is cancelled.
    func reply(
        to messages: [ChatMessage], isolation: isolated (any Actor)? = #isolation,
        delta handle: (String) async throws -> Void
    ) async throws {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(
            try JSONEncoder().encodeAsByteBuffer(
                Request(messages: messages), allocator: ByteBufferAllocator()))
        let response = try await client.execute(request, deadline: .distantFuture)
        guard response.status == .ok else { throw Refused(status: response.status.code) }
        let decoder = JSONDecoder()
        var received = ByteBuffer()
        for try await part in response.body {
            received.writeImmutableBuffer(part)
            while let end = received.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) {
                let line = received.readSlice(length: end - received.readerIndex + 1)!
                guard line.readableBytesView.starts(with: Array("data: ".utf8)) else { continue }
                var data = line.getSlice(
                    at: line.readerIndex + 6, length: line.readableBytes - 6)!
                if data.readableBytesView.starts(with: Array("[DONE]".utf8)) { return }
                let chunk = try data.readJSONDecodable(
                    Chunk.self, decoder: decoder, length: data.readableBytes)
                if let text = chunk?.choices.first?.delta.content, !text.isEmpty {
                    try await handle(text)
                }
            }
            received.discardReadBytes()
        }
    }
}
