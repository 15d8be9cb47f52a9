// The streamable HTTP transport of the Model Context Protocol, in both of its forms. Every message is
// a POST, which the server answers with JSON or with an event stream. In a stateless revision every
// request stands alone. In an earlier one a handshake comes first; the server may name a session,
// and may forget it. MCPClient knows the content of the messages.
//
// The stateless form is tried first, with `server/discover`; a server that does not understand it
// gets the handshake. The agreement lasts as long as the session with the server. MCPServerMemory
// keeps its form for the process. A refusal that does not fit the form (a server was replaced by one
// of another revision, or has forgotten a session) makes a new agreement, once per request.
//
// The server's own stream (GET) is not opened, since we announce no capability that needs one. An
// answer that breaks off is not resumed: the call has failed.
//
// Source: MCP 2025-06-18 and 2026-07-28, "Transports", "Streamable HTTP".

import Codec
import Session
import Synchronization

/// One session with one server over HTTP.
final class MCPStreamableHTTP: MCPTransport {
    /// Most bytes of one answer. 1 MiB: sixteen times what a session keeps of it.
    private static let maxAnswerBytes = 1 << 20
    /// Most bytes that are read of an answer with an error status. 64 KiB.
    private static let maxErrorBytes = 64 << 10
    /// Most requests of the server that are answered in one exchange. 16: each answer costs a
    /// request of ours.
    private static let maxServerRequests = 16
    /// Time limit of messages whose answer we do not need: notifications and the end of a session.
    private static let closeTimeout = Duration.seconds(5)

    /// How messages to the server look.
    private enum Agreement: Equatable {
        case stateless(version: String)
        /// After a handshake; the id is nil where the server gave none.
        case session(id: String?, version: String)
    }

    /// How a server has answered `server/discover`.
    private enum Discovery {
        case stateless(version: String)
        /// The server requires a handshake.
        case handshake
        /// It does not speak the version of the request.
        case refusal(supported: [String])
    }

    /// The doubt that a refusal leaves.
    private enum Doubt {
        case none
        /// Whether the server still knows the session.
        case session
        /// Whether the server speaks this revision.
        case form
    }

    let url: String
    private let label: String
    private let headers: [MCPTool.Header]
    private let isConfined: Bool
    private let record: MCPServerRecord
    private let agreement = Mutex<Agreement?>(nil)

    /// - Parameters:
    ///   - label: the operator's name for the server; empty: a client has named its URL.
    ///   - headers: sent with every request.
    ///   - isConfined: whether only public addresses may be reached.
    ///   - memory: of the process.
    init(
        url: String, label: String = "", headers: [MCPTool.Header], isConfined: Bool,
        memory: MCPServerMemory
    ) {
        self.url = url
        self.label = label
        self.headers = headers
        self.isConfined = isConfined
        record = memory.record(url: url, headers: headers, isConfined: isConfined)
    }

    /// A client over this transport.
    func client(_ timeouts: MCPTimeouts) -> MCPClient {
        MCPClient(
            transport: self, record: record, timeouts: timeouts, label: label, address: url)
    }

    func request(
        _ request: JSONRPCRequest, within limit: Duration, on host: any AgentHost
    ) async throws -> MCPReply {
        let known = try await agree(within: limit, on: host)
        do {
            return try await reply(to: request, as: known, within: limit, on: host)
        } catch let refusal as MCPRefusal {
            let renewed = try await renew(known, after: refusal, within: limit, on: host)
            guard let renewed else { throw refusal }
            return try await reply(to: request, as: renewed, within: limit, on: host)
        }
    }

    /// Notifies a session. A stateless server sees the end of the transfer instead.
    func cancel(id: String, on host: any AgentHost) async {
        guard let known = agreement.withLock({ $0 }), case .session = known else { return }
        let notification = JSONRPCRequest(
            method: "notifications/cancelled", parameters: [.init("requestId", id)])
        try? await post(notification.encoded(), as: known, on: host)
    }

    func close(on host: any AgentHost) async {
        let known = agreement.withLock { $0.take() }
        guard let known, case .session(id: .some, version: _) = known else { return }
        var request = upstreamRequest(as: known, body: [], within: Self.closeTimeout)
        request.method = "DELETE"
        // A server without this method ends the session by its own time limit.
        _ = try? await host.send(request)
    }

    // MARK: The agreement

    /// The agreement with the server; makes one where there is none.
    private func agree(within limit: Duration, on host: any AgentHost) async throws -> Agreement {
        if let known = agreement.withLock({ $0 }) { return known }
        let new: Agreement
        switch record.era(at: await host.now()) {
        case .stateless(let version): new = .stateless(version: version)
        case .handshake:
            do {
                new = try await shakeHands(within: limit, on: host)
            } catch let refusal as MCPRefusal where !refusal.isPassing {
                record.forget()
                new = try await negotiate(within: limit, on: host)
            }
        case nil: new = try await negotiate(within: limit, on: host)
        }
        agreement.withLock { $0 = new }
        return new
    }

    /// Forgets an agreement, unless another task has made a new one meanwhile.
    private func forget(_ known: Agreement) {
        agreement.withLock { if $0 == known { $0 = nil } }
        record.forget()
    }

    /// Makes another agreement after a refusal. The result is nil where the known one still holds:
    /// then the refusal is about the request itself.
    private func renew(
        _ known: Agreement, after refusal: MCPRefusal, within limit: Duration,
        on host: any AgentHost
    ) async throws -> Agreement? {
        switch Self.doubt(of: known, after: refusal) {
        case .none: return nil
        case .session:
            forget(known)
            return try await agree(within: limit, on: host)
        case .form:
            let discovery = try await discover(within: limit, on: host)
            switch (discovery, known) {
            case (.stateless(let version), .stateless(let old)) where version == old: return nil
            case (.handshake, .session), (.refusal, .session): return nil
            default: break
            }
            forget(known)
            let new = try await settle(discovery, within: limit, on: host)
            agreement.withLock { $0 = new }
            return new
        }
    }

    /// Finds out how to talk to the server, and remembers it.
    private func negotiate(
        within limit: Duration, on host: any AgentHost
    ) async throws -> Agreement {
        try await settle(discover(within: limit, on: host), within: limit, on: host)
    }

    private func settle(
        _ discovery: Discovery, within limit: Duration, on host: any AgentHost
    ) async throws -> Agreement {
        switch discovery {
        case .stateless(let version):
            record.remember(.stateless(version: version), at: await host.now())
            return .stateless(version: version)
        case .refusal(let supported) where !MCPVersion.mayShakeHands(supported):
            throw MCPCallError.unsupportedVersions(supported)
        case .refusal, .handshake:
            let session = try await shakeHands(within: limit, on: host)
            record.remember(.handshake, at: await host.now())
            return session
        }
    }

    /// Asks with the newest version, and then with another one that the server names.
    private func discover(
        within limit: Duration, on host: any AgentHost
    ) async throws -> Discovery {
        let discovery = try await discover(MCPVersion.newest, within: limit, on: host)
        guard case .refusal(let supported) = discovery,
            let other = MCPVersion.stateless(in: supported, besides: MCPVersion.newest)
        else { return discovery }
        return try await discover(other, within: limit, on: host)
    }

    /// Treats every answer that is not in the stateless form as one of an earlier server, except
    /// for refusals that have another reason, such as missing credentials.
    private func discover(
        _ version: String, within limit: Duration, on host: any AgentHost
    ) async throws -> Discovery {
        do {
            let result = try await exchange(
                MCPVersion.discover(id: "discover"), as: .stateless(version: version),
                within: limit, on: host
            ).result
            return MCPVersion.stateless(discovered: result).map { .stateless(version: $0) }
                ?? .handshake
        } catch let refusal as MCPRefusal {
            if refusal.failure?.code == JSONRPCFailure.Code.unsupportedVersion {
                return .refusal(supported: refusal.failure?.supportedVersions ?? [])
            }
            guard !refusal.isPassing else { throw refusal }
            return .handshake
        } catch AgentError.malformedReply {
            return .handshake
        }
    }

    /// - Throws: also `MCPRefusal`.
    private func shakeHands(
        within limit: Duration, on host: any AgentHost
    ) async throws -> Agreement {
        let (result, sessionID) = try await exchange(
            MCPVersion.initialize(id: "initialize"), as: nil, within: limit, on: host)
        let new = Agreement.session(id: sessionID, version: try MCPVersion.chosen(in: result))
        try await post(MCPVersion.initialized.encoded(), as: new, on: host)
        return new
    }

    /// The doubt that a refusal leaves about the agreement: `.none` where the request may have been
    /// executed.
    private static func doubt(of known: Agreement, after refusal: MCPRefusal) -> Doubt {
        if refusal.isPassing || refusal.status >= 500 { return .none }
        switch refusal.failure?.code {
        case JSONRPCFailure.Code.unsupportedVersion: return .form
        case JSONRPCFailure.Code.headerMismatch, JSONRPCFailure.Code.missingCapability:
            return .none
        case JSONRPCFailure.Code.invalidRequest, JSONRPCFailure.Code.methodNotFound,
            JSONRPCFailure.Code.invalidParams:
            if case .stateless = known { return .form }
        default: break
        }
        guard refusal.status >= 400 else { return .none }
        switch known {
        case .session(id: .some, version: _) where refusal.status == 404: return .session
        case .session where [400, 404, 405].contains(refusal.status):
            return refusal.namesRequest ? .form : .session
        case .session: return .none
        case .stateless: return .form
        }
    }

    // MARK: One exchange

    private func reply(
        to request: JSONRPCRequest, as known: Agreement, within limit: Duration,
        on host: any AgentHost
    ) async throws -> MCPReply {
        let result = try await exchange(request, as: known, within: limit, on: host).result
        if case .stateless = known { return MCPReply(result: result, isStateless: true) }
        return MCPReply(result: result, isStateless: false)
    }

    /// - Parameter known: nil for the first message of a handshake.
    /// - Throws: also `MCPRefusal`.
    private func exchange(
        _ request: JSONRPCRequest, as known: Agreement?, within limit: Duration,
        on host: any AgentHost
    ) async throws -> (result: RawJSON, sessionID: String?) {
        let response = try await send(
            upstreamRequest(request, as: known, within: limit), on: host)
        guard (200..<300).contains(response.status) else {
            throw try await refusal(in: response, of: request)
        }
        let sessionID = response.header("Mcp-Session-Id")
        let isStream = response.contentType?.lowercased().hasPrefix("text/event-stream") == true
        var inbox = Inbox(id: request.id, isStream: isStream)
        var evidence = evidence(in: response)
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
            if received == chunk.count { evidence.beginning = chunk }
            try inbox.append(chunk)
            host.charge(inbox.bufferedBytes, insteadOf: &charged)
            for answer in inbox.takeAnswers() {
                // A server of a stateless revision has no requests.
                if case .stateless = known { continue }
                answered += 1
                guard answered <= Self.maxServerRequests else {
                    throw MCPCallError.protocol(
                        code: -32_000, message: "The MCP server asks too much in one answer.")
                }
                let asked = known ?? .session(id: sessionID, version: MCPVersion.asked)
                try? await post(answer, as: asked, on: host)
            }
        }
        switch try Self.explained(evidence, { try inbox.finish() }) {
        case .success(let result): return (result, sessionID)
        case .failure(let failure):
            throw MCPRefusal(status: response.status, failure: failure, namesRequest: true)
        }
    }

    /// Says what an answer is that is no message of JSON-RPC.
    private static func explained<Value>(
        _ evidence: ServiceEvidence, _ read: () throws -> Value
    ) throws -> Value {
        do {
            return try read()
        } catch AgentError.malformedReply(let message, let detail) {
            guard let kind = evidence.foreignKind else {
                throw AgentError.malformedReply(message: message, detail: detail)
            }
            throw AgentError.malformedReply(
                message: "The MCP server's answer is \(kind.rawValue).",
                detail:
                    "status \(evidence.status), \(evidence.contentType ?? "no media type"), begins "
                    + evidence.shownBeginning)
        }
    }

    /// Reads the error of JSON-RPC from an answer with an error status, if it has one.
    private func refusal(
        in response: any UpstreamResponse, of request: JSONRPCRequest?
    ) async throws -> MCPRefusal {
        var refusal = MCPRefusal(status: response.status, evidence: evidence(in: response))
        guard response.contentType?.lowercased().hasPrefix("application/json") == true else {
            let chunk = try? await response.nextChunk()
            refusal.evidence?.beginning = chunk ?? []
            return refusal
        }
        var body: [UInt8] = []
        while let chunk = try await response.nextChunk() {
            guard body.count + chunk.count <= Self.maxErrorBytes else { return refusal }
            body += chunk
        }
        refusal.evidence?.beginning = Array(body.prefix(ServiceEvidence.maxBeginningBytes))
        guard
            case .response(let id, .failure(let failure))? = try? JSONRPCMessage.all(in: body).first
        else { return refusal }
        refusal.failure = failure
        refusal.namesRequest = id != nil && id == request?.id
        return refusal
    }

    /// The evidence in a response, for the operator.
    private func evidence(in response: any UpstreamResponse) -> ServiceEvidence {
        ServiceEvidence(
            url: url, status: response.status, contentType: response.contentType,
            target: response.location.flatMap { ServiceAddress.target(of: $0, from: url) })
    }

    /// - Throws: also `MCPRefusal`.
    private func post(
        _ body: [UInt8], as known: Agreement, on host: any AgentHost
    ) async throws {
        let response = try await send(
            upstreamRequest(as: known, body: body, within: Self.closeTimeout), on: host)
        guard (200..<300).contains(response.status) else {
            throw MCPRefusal(status: response.status, evidence: evidence(in: response))
        }
    }

    private func upstreamRequest(
        _ request: JSONRPCRequest, as known: Agreement?, within limit: Duration
    ) -> UpstreamRequest {
        guard case .stateless(let version) = known else {
            return upstreamRequest(as: known, body: request.encoded(), within: limit)
        }
        var upstream = upstreamRequest(
            as: known, body: request.encoded(for: version), within: limit)
        upstream.headers.append((name: "Mcp-Method", value: request.method))
        if let name = request.toolName {
            upstream.headers.append((name: "Mcp-Name", value: MCPParameterHeader.encoded(name)))
        }
        upstream.headers += request.fields
        return upstream
    }

    private func upstreamRequest(
        as known: Agreement?, body: [UInt8], within limit: Duration
    ) -> UpstreamRequest {
        var fields = headers.map { (name: $0.name, value: $0.value) }
        fields += [
            (name: "Content-Type", value: "application/json"),
            (name: "Accept", value: "application/json, text/event-stream"),
        ]
        switch known {
        case .stateless(let version):
            fields.append((name: "MCP-Protocol-Version", value: version))
        case .session(let id, let version):
            fields.append((name: "MCP-Protocol-Version", value: version))
            if let id { fields.append((name: "Mcp-Session-Id", value: id)) }
        case nil: break
        }
        var request = UpstreamRequest(
            url: url, headers: fields, body: body, timeout: limit, totalTimeout: limit)
        request.keptHeader = "Mcp-Session-Id"
        request.reachesOnlyPublicAddresses = isConfined
        return request
    }

    /// Reports an address that may not be reached as one that does not answer. Otherwise a client
    /// could find out which addresses exist in the server's own network.
    private func send(
        _ request: UpstreamRequest, on host: any AgentHost
    ) async throws -> any UpstreamResponse {
        do {
            // Redirects of a server that a client has named are not followed.
            guard !label.isEmpty else { return try await host.send(request) }
            return try await host.sendFollowing(request, to: "mcp/" + label)
        } catch let error as AgentError {
            guard request.reachesOnlyPublicAddresses, case .unavailable(let message) = error else {
                throw error
            }
            throw AgentError.upstream(status: 0, message: message)
        }
    }
}

/// A server has refused a request: with an error of JSON-RPC, with an HTTP status, or both.
/// MCPClient makes a `MCPCallError` of it.
struct MCPRefusal: Error {
    /// The HTTP status; 2xx where only JSON-RPC has an error.
    var status: Int
    /// The error of JSON-RPC; nil where there is none.
    var failure: JSONRPCFailure?
    /// Whether the error names the request's id: the server has understood the request's form.
    var namesRequest = false
    /// The evidence in the response. It is nil where the error of JSON-RPC says all.
    var evidence: ServiceEvidence?

    /// Whether the status has another reason than the form of the request: credentials, rate limits,
    /// sizes, or a server that is down.
    var isPassing: Bool {
        [401, 403, 407, 408, 413, 429, 431, 502, 503, 504].contains(status)
    }

    /// The same for the item of a call.
    var callError: MCPCallError {
        failure?.callError
            ?? .http(code: status, message: "The MCP server answered with status \(status).")
    }
}

extension MCPCallError {
    /// Most versions that an error names.
    private static let maxNamedVersions = 8

    /// A server speaks none of our revisions.
    static func unsupportedVersions(_ supported: [String]) -> MCPCallError {
        let names = supported.prefix(maxNamedVersions).map { $0.prefix(32) }
        return .protocol(
            code: JSONRPCFailure.Code.unsupportedVersion,
            message: "The MCP server speaks only versions of the protocol that are not known here: "
                + names.joined(separator: ", "))
    }
}

/// The messages that arrive in answer to one request.
private struct Inbox {
    let id: String?
    let isStream: Bool
    /// The request's result, once it has arrived.
    private(set) var result: Result<RawJSON, JSONRPCFailure>?
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
    mutating func finish() throws -> Result<RawJSON, JSONRPCFailure> {
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
