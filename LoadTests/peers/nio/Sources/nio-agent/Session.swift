// A session: one connection's conversation, with the part of the Realtime protocol that the claims
// need. It is an actor, because events arrive while a reply is streamed.

import Foundation
import NIOCore
import NIOFoundationCompat
import NIOWebSocket

struct Content: Codable, Sendable {
    var type: String
    var text: String?
}

struct Item: Codable, Sendable {
    var id: String?
    var object: String?
    var type: String
    var role: String
    var content: [Content]
}

struct Settings: Codable, Sendable {
    var id: String?
    var object: String?
    var type: String?
    var model: String?
    var output_modalities: [String]?
    var instructions: String?
}

struct ClientEvent: Decodable, Sendable {
    var type: String
    var session: Settings?
    var item: Item?
}

struct ServerEvent: Encodable, Sendable {
    struct Response: Encodable {
        var id: String
        var object = "realtime.response"
        var status: String
        var output: [Item] = []
    }

    struct Failure: Encodable {
        var type = "invalid_request_error"
        var message: String
    }

    /// Written by hand, see `send`.
    var type: String
    var event_id = "event_\(UUID())"
    var session: Settings?
    var item: Item?
    var response: Response?
    var response_id: String?
    var item_id: String?
    var output_index: Int?
    var content_index: Int?
    var delta: String?
    var text: String?
    var error: Failure?

    private enum CodingKeys: String, CodingKey {
        case event_id, session, item, response, response_id, item_id, output_index
        case content_index, delta, text, error
    }
}

actor Session {
    private let outbound: NIOAsyncChannelOutboundWriter<WebSocketFrame>
    private let model: ModelClient
    private let encoder = JSONEncoder()
    private let decoder = JSONDecoder()
    private var settings: Settings
    private var messages: [ChatMessage] = []
    private var isResponding = false

    init(
        outbound: NIOAsyncChannelOutboundWriter<WebSocketFrame>, model: ModelClient, uri: String
    ) {
        self.outbound = outbound
        self.model = model
        let query = URLComponents(string: uri)?.queryItems
        settings = Settings(
            id: "sess_\(UUID())", object: "realtime.session", type: "realtime",
            model: query?.first { $0.name == "model" }?.value)
    }

    func run(_ inbound: NIOAsyncChannelInboundStream<WebSocketFrame>) async throws {
        try await send(ServerEvent(type: "session.created", session: settings))
        try await withThrowingDiscardingTaskGroup { group in
            // The reply ends with the client's connection.
            defer { group.cancelAll() }
            for try await frame in inbound {
                switch frame.opcode {
                case .text:
                    var data = frame.unmaskedData
                    guard
                        let event = try data.readJSONDecodable(
                            ClientEvent.self, decoder: decoder, length: data.readableBytes)
                    else { return }
                    if try await handle(event) {
                        group.addTask { try await self.respond() }
                    }
                case .ping:
                    try await outbound.write(
                        WebSocketFrame(fin: true, opcode: .pong, data: frame.unmaskedData))
                case .connectionClose:
                    var data = frame.unmaskedData
                    let code = data.readSlice(length: 2) ?? ByteBuffer()
                    try await outbound.write(
                        WebSocketFrame(fin: true, opcode: .connectionClose, data: code))
                    return
                default:
                    break
                }
            }
        }
    }

    /// - Returns: whether the event asks for a response.
    private func handle(_ event: ClientEvent) async throws -> Bool {
        switch event.type {
        case "session.update":
            if let modalities = event.session?.output_modalities {
                settings.output_modalities = modalities
            }
            if let text = event.session?.instructions { settings.instructions = text }
            try await send(ServerEvent(type: "session.updated", session: settings))
        case "conversation.item.create":
            guard var item = event.item else { break }
            item.id = "item_\(UUID())"
            item.object = "realtime.item"
            let text = item.content.compactMap(\.text).joined()
            messages.append(ChatMessage(role: item.role, content: text))
            try await send(ServerEvent(type: "conversation.item.added", item: item))
            try await send(ServerEvent(type: "conversation.item.done", item: item))
        case "response.create" where !isResponding:
            isResponding = true
            return true
        default:
            let message = "\(event.type) is unknown, or a response is in progress"
            try await send(ServerEvent(type: "error", error: .init(message: message)))
        }
        return false
    }

    private func respond() async throws {
        var response = ServerEvent.Response(id: "resp_\(UUID())", status: "in_progress")
        let item = "item_\(UUID())"
        var event = ServerEvent(
            type: "response.output_text.delta", response_id: response.id, item_id: item,
            output_index: 0, content_index: 0)
        try await send(ServerEvent(type: "response.created", response: response))
        var text = ""
        response.status = "completed"
        do {
            _ = callTool(messages.last?.content ?? "")
            try await model.reply(to: messages) { delta in
                text += delta
                event.event_id = "event_\(UUID())"
                event.delta = delta
                try await send(event)
            }
        } catch {
            try Task.checkCancellation()
            response.status = "failed"
        }
        isResponding = false
        messages.append(ChatMessage(role: "assistant", content: text))
        event.type = "response.output_text.done"
        event.delta = nil
        event.text = text
        try await send(event)
        response.output = [
            Item(
                id: item, type: "message", role: "assistant",
                content: [Content(type: "output_text", text: text)])
        ]
        try await send(ServerEvent(type: "response.done", response: response))
    }

    private func send(_ event: ServerEvent) async throws {
        // JSONEncoder keeps no order, but events must begin with their type, as in the other peers.
        var data = ByteBuffer(string: "{\"type\":\"\(event.type)\",")
        var fields = try encoder.encodeAsByteBuffer(event, allocator: ByteBufferAllocator())
        fields.moveReaderIndex(forwardBy: 1)
        data.writeBuffer(&fields)
        try await outbound.write(WebSocketFrame(fin: true, opcode: .text, data: data))
    }
}

/// A CPU-heavy tool: "burn=500" in a user's text computes for 500 milliseconds.
func callTool(_ text: String) -> Int {
    guard let call = text.firstMatch(of: /\bburn=(\d+)/), let milliseconds = Int(call.1) else {
        return 0
    }
    let end = ContinuousClock.now + .milliseconds(milliseconds)
    var (primes, number) = (0, 2)
    while ContinuousClock.now < end {
        var divisor = 2
        while divisor * divisor <= number, !number.isMultiple(of: divisor) { divisor += 1 }
        if divisor * divisor > number { primes += 1 }
        number += 1
    }
    return primes
}
