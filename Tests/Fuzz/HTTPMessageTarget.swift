// HTTP/1.1: pipelined requests, a response, an event stream, and the proxy header before them. The
// result is the same however the bytes are split. A request that is written again parses as the
// same request, because parsers that disagree make request smuggling possible.
//
// An input: a byte of choices, a byte for the split, then the stream.

import Codec

/// `http_message`: HTTPRequestParser, HTTPResponseParser, ServerSentEventsParser, ProxyHeader.
/// Accepted requests also go through the checks of WebSocket handshakes, origins and forwarded
/// addresses.
enum HTTPMessageTarget: FuzzTarget {
    static let name = "http_message"

    /// The low bits of the first byte choose the parser.
    private enum Subject: UInt8 {
        case requests, responseToGet, responseToHead, eventStream
    }

    static var seeds: [(name: String, bytes: [UInt8])] {
        let requests = HTTPSamples.requests.map { ("request-\($0.name)", 0, $0.text) }
        let responses = HTTPSamples.responses.map { ("response-\($0.name)", 1, $0.text) }
        let streams = HTTPSamples.eventStreams.map { ("events-\($0.name)", 3, $0.text) }
        let proxied = HTTPSamples.proxyHeaders.map { header in
            ("proxy-\(header.name)", [8, 7] + header.bytes)
        }
        return proxied
            + (requests + responses + streams).map { name, subject, text in
                // Printable choices, so that an input can be read and edited as text.
                (name, [UInt8(ascii: "0") + UInt8(subject), UInt8(ascii: "7")] + Array(text.utf8))
            }
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let chunking = Chunking(input.byte())
        let stream = input.rest()
        let limits = choices & 4 == 0 ? HTTPLimits() : smallLimits
        if choices & 8 != 0 {
            return _ = requireChunkInvariant(stream, chunking, readProxyHeader)
        }
        switch Subject(rawValue: choices & 3) ?? .requests {
        case .requests:
            requireChunkInvariant(stream, chunking) { readRequests($0, limits) }
        case .responseToGet:
            requireChunkInvariant(stream, chunking) { readResponse($0, .get, limits) }
        case .responseToHead:
            requireChunkInvariant(stream, chunking) { readResponse($0, .head, limits) }
        case .eventStream:
            let limit = choices & 4 == 0 ? 1 << 20 : 64
            requireChunkInvariant(stream, chunking) { readEvents($0, maxEventBytes: limit) }
        }
    }

    /// Limits that a short input can reach.
    private static var smallLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.maxStartLineBytes = 48
        limits.maxHeaderBytes = 256
        limits.maxHeaderFields = 6
        limits.maxBodyBytes = 48
        return limits
    }

    // MARK: Requests

    /// One line for each request, and one for the error after them.
    private static func readRequests(_ pieces: [[UInt8]], _ limits: HTTPLimits) -> [String] {
        var parser = HTTPRequestParser(limits: limits)
        var held: [UInt8] = []
        var outcome: [String] = []
        for piece in pieces {
            held += piece
            while !held.isEmpty {
                do throws(HTTPError) {
                    let parsed = try withBytes(of: held) { (bytes) throws(HTTPError) in
                        try parser.parse(bytes)
                    }
                    guard let (request, consumed) = parsed else { break }
                    require(consumed > 0 && consumed <= held.count, "consumed \(consumed)")
                    held.removeFirst(consumed)
                    outcome.append(describe(request) + " after \(consumed)")
                    checkRewritten(request, limits)
                } catch {
                    require((400...599).contains(error.status), "\(error) has no status")
                    return outcome + ["failed: \(error)"]
                }
            }
        }
        return outcome + ["\(held.count) bytes wait"]
    }

    private static func describe(_ request: HTTPRequest) -> String {
        let fields = request.fields.map { "\($0.name): \($0.value)" }.joined(separator: "|")
        let upgrade: String
        do throws(WebSocketHandshakeError) {
            let accepted = try WebSocketHandshake.validate(request)
            let selected = accepted.selectSubprotocol(from: ["realtime"])
            upgrade =
                "\(accepted.key) \(accepted.subprotocols) \(selected ?? "-") "
                + "\(accepted.extensions)"
            checkAcceptance(of: accepted, selected)
        } catch {
            upgrade = "\(error)"
        }
        return "\(request.method) \(request.path)?\(request.query ?? "-") \(request.host) "
            + "\(request.version) \(fields) \(request.body) keep: \(request.wantsKeepAlive) "
            + "model: \(request.queryValue("model") ?? "-") upgrade: \(upgrade) "
            + "from \(describeSource(request))"
    }

    /// The source of a request. Values that were parsed must parse again from their text.
    private static func describeSource(_ request: HTTPRequest) -> String {
        let proxy = NetworkAddress(v4: 0x7F00_0001)
        let client = ForwardedFor.client(in: request.fields, sentBy: proxy) { $0.isLoopback }
        require(NetworkAddress("\(client)") == client, "\(client) is another address")
        let origin = request.fields["Origin"].flatMap(WebOrigin.init)
        require(origin.map { WebOrigin("\($0)") == $0 } != false, "\(origin!) is another origin")
        let authority = WebAuthority(request.host)
        require(
            authority.map { WebAuthority("\($0)") == $0 } != false,
            "\(authority!) is another authority")
        return "\(client) \(origin?.description ?? "-") \(authority?.description ?? "-")"
    }

    /// The client's side must accept the answer that the server writes.
    private static func checkAcceptance(of upgrade: WebSocketUpgrade, _ selected: String?) {
        var answer = ByteWriter(capacity: 256)
        WebSocketHandshake.writeAcceptance(of: upgrade, subprotocol: selected, into: &answer)
        var parser = HTTPResponseParser()
        guard let (response, consumed) = answer.withUnsafeBytes({ try? parser.parse($0) }),
            consumed == answer.count,
            (try? WebSocketHandshake.validate(
                response, key: upgrade.key, subprotocols: upgrade.subprotocols)) == selected
        else { fatalError("a client would refuse the acceptance") }
    }

    /// A request written in its plainest form must parse as the same request.
    private static func checkRewritten(_ request: HTTPRequest, _ limits: HTTPLimits) {
        // Invalid UTF-8 has been replaced. A chunked body and an absolute target have a different
        // plain form, which may exceed a limit that the original kept.
        let fields = request.fields
        guard fields.count(of: "Transfer-Encoding") == 0, request.host == fields["Host"] ?? "",
            !fields.contains(where: { $0.value.contains("\u{FFFD}") })
        else { return }
        let target = request.path + (request.query.map { "?\($0)" } ?? "")
        let version = request.version == .http10 ? "HTTP/1.0" : "HTTP/1.1"
        var text = "\(token(of: request.method)) \(target) \(version)\r\n"
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        let bytes = Array((text + "\r\n").utf8) + request.body
        var parser = HTTPRequestParser()
        guard let (again, consumed) = bytes.withUnsafeBytes({ try? parser.parse($0) }) else {
            fatalError("refused when written again: \(text)")
        }
        require(consumed == bytes.count, "ends elsewhere when written again: \(text)")
        require(
            again.method == request.method && again.path == request.path
                && again.query == request.query && again.host == request.host
                && again.body == request.body
                && again.fields.elementsEqual(fields, by: ==),
            "another request when written again: \(text)")
    }

    private static func token(of method: HTTPMethod) -> String {
        switch method {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .other(let token): token
        }
    }

    // MARK: Responses

    private static func readResponse(
        _ pieces: [[UInt8]], _ method: HTTPMethod, _ limits: HTTPLimits
    ) -> String {
        var parser = HTTPResponseParser(answering: method, limits: limits)
        var held: [UInt8] = []
        do throws(HTTPError) {
            for (index, piece) in pieces.enumerated() {
                held += piece
                let parsed = try withBytes(of: held) { (bytes) throws(HTTPError) in
                    try parser.parse(bytes)
                }
                guard let (response, consumed) = parsed else { continue }
                require(consumed > 0 && consumed <= held.count, "consumed \(consumed)")
                let after = held.count - consumed + pieces[(index + 1)...].joined().count
                return "\(describe(response)) then \(after) bytes"
            }
            let response = try withBytes(of: held) { (bytes) throws(HTTPError) in
                try parser.finish(bytes)
            }
            return "\(describe(response)) at the end"
        } catch {
            return "failed: \(error)"
        }
    }

    private static func describe(_ response: HTTPResponse) -> String {
        let fields = response.fields.map { "\($0.name): \($0.value)" }.joined(separator: "|")
        let handshake: String
        do throws(WebSocketHandshakeError) {
            let selected = try WebSocketHandshake.validate(
                response, key: HTTPSamples.key, subprotocols: ["realtime"])
            handshake = "selects \(selected ?? "-")"
        } catch {
            handshake = "\(error)"
        }
        return "\(response.status) \(fields) \(response.body) \(handshake)"
    }

    // MARK: The proxy's header

    private static func readProxyHeader(_ pieces: [[UInt8]]) -> String {
        var held: [UInt8] = []
        do throws(ProxyProtocolError) {
            for (index, piece) in pieces.enumerated() {
                held += piece
                let parsed = try withBytes(of: held) { (bytes) throws(ProxyProtocolError) in
                    try ProxyHeader.parse(bytes)
                }
                guard let (header, consumed) = parsed else {
                    require(held.count < ProxyHeader.maxBytes, "waits for more than the limit")
                    continue
                }
                let after = held.count - consumed + pieces[(index + 1)...].joined().count
                return "\(header.source?.description ?? "-") then \(after) bytes"
            }
            return "\(held.count) bytes wait"
        } catch {
            return "failed: \(error)"
        }
    }

    // MARK: Event streams

    private static func readEvents(_ pieces: [[UInt8]], maxEventBytes: Int) -> [String] {
        var parser = ServerSentEventsParser(maxEventBytes: maxEventBytes)
        var outcome: [String] = []
        for piece in pieces {
            do {
                try piece.withUnsafeBytes { bytes in
                    try parser.append(bytes) { outcome.append("\($0.type): \($0.data)") }
                }
            } catch {
                require(error is ServerSentEventsError, "an untyped error: \(error)")
                return outcome + ["failed: \(error)"]
            }
            // Two buffers that at most double, and the memory kept for the next event.
            require(parser.heldBytes <= 4 * maxEventBytes + 4096, "holds \(parser.heldBytes)")
        }
        return outcome
    }
}
