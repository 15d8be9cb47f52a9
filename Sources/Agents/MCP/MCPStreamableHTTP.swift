// The streamable HTTP transport of the Model Context Protocol. Every message is a POST, which the
// server answers with JSON or with an event stream. The server may name a session, and may forget
// it. MCPClient knows the content of the messages.
//
// The server's own stream (GET) is not opened, since we announce no capability that a server could
// use. An answer that breaks off is not resumed: the call has failed.
//
// Source: MCP 2025-06-18, "Transports", "Streamable HTTP".

import Codec
import Session
import Synchronization

/// One session with one server over HTTP.
final class MCPStreamableHTTP: MCPTransport {
    /// Most bytes of one answer. 1 MiB: sixteen times what a session keeps of it.
    private static let maxAnswerBytes = 1 << 20
    /// Most requests of the server that are answered in one exchange. 16: each answer costs a
    /// request of ours.
    private static let maxServerRequests = 16
    /// Time limit of messages whose answer we do not need: notifications and the end of a session.
    private static let closeTimeout = Duration.seconds(5)

    /// The result of a handshake: the session's id, if the server gave one, and the version.
    private struct Handshake: Equatable {
        var sessionID: String?
        var version: String
    }

    /// The server has forgotten the session.
    private struct SessionLost: Error {}

    private let url: String
    private let headers: [MCPTool.Header]
    private let isConfined: Bool
    private let handshake = Mutex<Handshake?>(nil)

    /// - Parameters:
    ///   - headers: sent with every request.
    ///   - isConfined: whether only public addresses may be reached.
    init(url: String, headers: [MCPTool.Header], isConfined: Bool) {
        self.url = url
        self.headers = headers
        self.isConfined = isConfined
    }

    func request(
        _ request: JSONRPCRequest, within limit: Duration, on host: any AgentHost
    ) async throws -> RawJSON {
        let known = try await shakeHands(within: limit, on: host)
        do {
            return try await exchange(request, as: known, within: limit, on: host).result
        } catch is SessionLost {
            // Another task may have done a new handshake meanwhile.
            handshake.withLock { if $0 == known { $0 = nil } }
            let renewed = try await shakeHands(within: limit, on: host)
            do {
                return try await exchange(request, as: renewed, within: limit, on: host).result
            } catch is SessionLost {
                throw Self.refused(404)
            }
        }
    }

    func notify(_ notification: JSONRPCRequest, on host: any AgentHost) async throws {
        guard let known = handshake.withLock({ $0 }) else { return }
        try await post(notification.encoded, as: known, on: host)
    }

    func close(on host: any AgentHost) async {
        let known = handshake.withLock { $0.take() }
        guard let known, known.sessionID != nil else { return }
        var request = request(as: known, body: [], within: Self.closeTimeout)
        request.method = "DELETE"
        // A server without this method ends the session by its own time limit.
        _ = try? await host.send(request)
    }

    // MARK: The handshake

    private func shakeHands(within limit: Duration, on host: any AgentHost) async throws
        -> Handshake
    {
        if let known = handshake.withLock({ $0 }) { return known }
        let (result, sessionID): (RawJSON, String?)
        do {
            (result, sessionID) = try await exchange(
                MCPVersion.initialize(id: "initialize"), as: nil, within: limit, on: host)
        } catch is SessionLost {
            throw Self.refused(404)
        }
        let new = Handshake(sessionID: sessionID, version: try MCPVersion.chosen(in: result))
        try await post(MCPVersion.initialized.encoded, as: new, on: host)
        handshake.withLock { $0 = new }
        return new
    }

    // MARK: One exchange

    private func exchange(
        _ request: JSONRPCRequest, as known: Handshake?, within limit: Duration,
        on host: any AgentHost
    ) async throws -> (result: RawJSON, sessionID: String?) {
        let response = try await Self.send(
            self.request(as: known, body: request.encoded, within: limit), on: host)
        try Self.check(response, as: known)
        let sessionID = response.header("Mcp-Session-Id")
        let isStream = response.contentType?.lowercased().hasPrefix("text/event-stream") == true
        var inbox = Inbox(id: request.id, isStream: isStream)
        var received = 0
        var answered = 0
        var charged = 0
        defer { host.charge(-charged) }
        while inbox.result == nil, let chunk = try await response.nextChunk() {
            received += chunk.count
            guard received <= Self.maxAnswerBytes else {
                throw MCPCallError.protocol(
                    code: -32_000, message: "The MCP server's answer is too large.")
            }
            try inbox.append(chunk)
            host.charge(inbox.bufferedBytes, insteadOf: &charged)
            for answer in inbox.takeAnswers() {
                answered += 1
                guard answered <= Self.maxServerRequests else {
                    throw MCPCallError.protocol(
                        code: -32_000, message: "The MCP server asks too much in one answer.")
                }
                let asked = known ?? Handshake(sessionID: sessionID, version: MCPVersion.asked)
                try? await post(answer, as: asked, on: host)
            }
        }
        return (try inbox.finish().get(), sessionID)
    }

    private func post(
        _ body: [UInt8], as known: Handshake, on host: any AgentHost
    ) async throws {
        try Self.check(
            try await Self.send(
                request(as: known, body: body, within: Self.closeTimeout), on: host),
            as: known)
    }

    private func request(
        as known: Handshake?, body: [UInt8], within limit: Duration
    ) -> UpstreamRequest {
        var fields = headers.map { (name: $0.name, value: $0.value) }
        fields += [
            (name: "Content-Type", value: "application/json"),
            (name: "Accept", value: "application/json, text/event-stream"),
        ]
        if let known {
            fields.append((name: "MCP-Protocol-Version", value: known.version))
            if let id = known.sessionID { fields.append((name: "Mcp-Session-Id", value: id)) }
        }
        var request = UpstreamRequest(
            url: url, headers: fields, body: body, timeout: limit, totalTimeout: limit)
        request.keptHeader = "Mcp-Session-Id"
        request.reachesOnlyPublicAddresses = isConfined
        return request
    }

    /// Reports an address that may not be reached as one that does not answer. Otherwise a client
    /// could find out which addresses exist in the server's own network.
    private static func send(
        _ request: UpstreamRequest, on host: any AgentHost
    ) async throws -> any UpstreamResponse {
        do {
            return try await host.send(request)
        } catch let error as AgentError {
            guard request.reachesOnlyPublicAddresses, case .unavailable(let message) = error else {
                throw error
            }
            throw AgentError.upstream(status: 0, message: message)
        }
    }

    private static func check(_ response: any UpstreamResponse, as known: Handshake?) throws {
        if (200..<300).contains(response.status) { return }
        if response.status == 404, known?.sessionID != nil { throw SessionLost() }
        throw refused(response.status)
    }

    private static func refused(_ status: Int) -> MCPCallError {
        .http(code: status, message: "The MCP server answered with status \(status).")
    }
}

/// The messages that arrive in answer to one request.
private struct Inbox {
    let id: String?
    let isStream: Bool
    /// The request's result, once it has arrived.
    private(set) var result: Result<RawJSON, MCPCallError>?
    private var answers: [[UInt8]] = []
    private var events = ServerSentEventsParser()
    private var body: [UInt8] = []

    /// Memory of the bytes that have arrived and could not be read yet.
    var bufferedBytes: Int { body.heapBytes + events.heldBytes }

    init(id: String?, isStream: Bool) {
        self.id = id
        self.isStream = isStream
    }

    mutating func append(_ chunk: [UInt8]) throws {
        guard isStream else {
            body += chunk
            return
        }
        var documents: [String] = []
        do {
            try chunk.withUnsafeBytes { bytes in
                try events.append(bytes) { documents.append($0.data) }
            }
        } catch let error as ServerSentEventsError {
            throw JSONRPCMessage.malformed("\(error)")
        }
        // An event without data only keeps the connection alive.
        for document in documents where !document.isEmpty {
            try take(JSONRPCMessage.all(in: Array(document.utf8)))
        }
    }

    /// The answer has ended.
    mutating func finish() throws -> Result<RawJSON, MCPCallError> {
        if !isStream { try take(JSONRPCMessage.all(in: body)) }
        guard let result else { throw JSONRPCMessage.malformed("no answer to the request") }
        return result
    }

    /// Takes our answers to the server's own requests.
    mutating func takeAnswers() -> [[UInt8]] {
        defer { answers = [] }
        return answers
    }

    private mutating func take(_ messages: [JSONRPCMessage]) throws {
        for message in messages {
            switch message {
            case .response(let id, let outcome):
                // An error without an id can only be the answer to the request that was just sent.
                if id == self.id || (id == nil && !outcome.isSuccess) { result = outcome }
            case .request(let id, let method):
                answers.append(JSONRPCRequest.answer(to: id, method: method))
            case .notification: break
            }
        }
    }
}

extension Result {
    fileprivate var isSuccess: Bool {
        if case .success = self { true } else { false }
    }
}
