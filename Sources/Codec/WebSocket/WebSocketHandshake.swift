// The opening handshake (RFC 6455 §4), both sides: checks and answers an HTTP request, or writes
// one and checks the answer. Extensions are parsed here. PerMessageDeflate negotiates the only
// supported one; others are ignored, which declines them (§9.1). Server checks the Origin, the path
// and the credentials.
//
// Invariant: work is linear in the size of the head, which HTTPLimits bounds.

/// A rule of the opening handshake that the peer broke.
public enum WebSocketHandshakeError: Error, Hashable, Sendable, CaseIterable {
    /// A method other than GET (RFC 6455 §4.1, 2).
    case methodNotGET
    /// HTTP/1.0 (RFC 6455 §4.1, 2).
    case httpTooOld
    /// No `Upgrade: websocket` (RFC 6455 §4.2.1, 3).
    case missingUpgrade
    /// No `Connection: Upgrade` (RFC 6455 §4.2.1, 4); typical of a proxy that is not configured for
    /// WebSockets.
    case missingConnectionUpgrade
    /// No Sec-WebSocket-Key (RFC 6455 §4.2.1, 5).
    case missingKey
    /// More than one Sec-WebSocket-Key (RFC 6455 §11.3.1).
    case duplicateKey
    /// A Sec-WebSocket-Key that is not the base64 of 16 bytes (RFC 6455 §4.2.1, 5).
    case invalidKey
    /// A Sec-WebSocket-Version other than 13 (RFC 6455 §4.4).
    case unsupportedVersion
    /// A Sec-WebSocket-Protocol that is not a list of tokens (RFC 6455 §4.1, 10).
    case invalidSubprotocols
    /// A Sec-WebSocket-Extensions that breaks the grammar (RFC 6455 §9.1).
    case invalidExtensions
    /// An answer other than 101 (RFC 6455 §4.1).
    case notAccepted
    /// An answer whose Sec-WebSocket-Accept does not match our key.
    case wrongAcceptKey
    /// An answer that selects a subprotocol that the request did not offer.
    case unofferedSubprotocol
    /// An answer that selects an extension, or a parameter of one, that the request did not offer.
    case unofferedExtension

    /// The status that refuses a request. Errors in an answer map to 502, which is what a gateway
    /// would report.
    public var status: Int {
        switch self {
        case .methodNotGET: 405
        case .httpTooOld, .missingConnectionUpgrade, .missingKey, .duplicateKey, .invalidKey,
            .invalidSubprotocols, .invalidExtensions:
            400
        case .missingUpgrade, .unsupportedVersion: 426
        case .notAccepted, .wrongAcceptKey, .unofferedSubprotocol, .unofferedExtension: 502
        }
    }

    /// One sentence for the developer of the client.
    public var explanation: String {
        switch self {
        case .methodNotGET: "A WebSocket is opened with GET."
        case .httpTooOld: "A WebSocket is opened over HTTP/1.1."
        case .missingUpgrade: "This is a WebSocket: the request needs 'Upgrade: websocket'."
        case .missingConnectionUpgrade:
            "The request needs 'Connection: Upgrade'; is there a proxy that drops it?"
        case .missingKey: "The request has no Sec-WebSocket-Key."
        case .duplicateKey: "The request has more than one Sec-WebSocket-Key."
        case .invalidKey: "Sec-WebSocket-Key is not the base64 of 16 bytes."
        case .unsupportedVersion: "Only Sec-WebSocket-Version 13 is spoken here."
        case .invalidSubprotocols: "Sec-WebSocket-Protocol is not a list of tokens."
        case .invalidExtensions: "Sec-WebSocket-Extensions is not a list of extensions."
        case .notAccepted: "The server did not switch to WebSocket."
        case .wrongAcceptKey: "The answer's Sec-WebSocket-Accept does not match the request."
        case .unofferedSubprotocol: "The server selected a subprotocol that was not offered."
        case .unofferedExtension: "The server selected an extension that was not offered."
        }
    }
}

/// A valid request for a WebSocket, not accepted yet.
public struct WebSocketUpgrade: Sendable {
    /// The client's key, which `WebSocketHandshake.acceptKey(for:)` answers.
    public let key: String
    /// The offered subprotocols, all tokens, in order of preference. Clients of OpenAI's API send
    /// their credentials among them, because a browser can set no other header.
    public let subprotocols: [String]
    /// The offered extensions, in order of preference.
    public let extensions: [WebSocketExtension]

    /// The first offered subprotocol that is supported. Nil if there is none. The answer then names
    /// no subprotocol.
    public func selectSubprotocol(from supported: [String]) -> String? {
        subprotocols.first(where: supported.contains)
    }
}

/// Checks and writes the two messages of the handshake.
public enum WebSocketHandshake {
    /// The subprotocol that OpenAI's realtime clients offer and expect to be selected.
    public static let realtimeSubprotocol = "realtime"
    /// The subprotocol of Asterisk's media channel.
    public static let mediaSubprotocol = "media"
    /// The version of the protocol (RFC 6455 §4.1, 9).
    private static let version = "13"

    // MARK: The server's side

    /// Whether a request asks for a WebSocket, valid or not.
    public static func isRequested(by request: HTTPRequest) -> Bool {
        request.fields.contains(token: "websocket", in: "Upgrade")
    }

    /// Checks a request (RFC 6455 §4.2.1). HTTPRequestParser has already checked its Host.
    /// - Throws: the first rule that it breaks. `refusal(of:)` creates the response.
    public static func validate(
        _ request: HTTPRequest
    ) throws(WebSocketHandshakeError) -> WebSocketUpgrade {
        let fields = request.fields
        guard request.method == .get else { throw .methodNotGET }
        guard request.version == .http11 else { throw .httpTooOld }
        guard isRequested(by: request) else { throw .missingUpgrade }
        guard fields.contains(token: "upgrade", in: "Connection") else {
            throw .missingConnectionUpgrade
        }
        guard fields["Sec-WebSocket-Version"] == version else { throw .unsupportedVersion }
        guard fields.count(of: "Sec-WebSocket-Key") <= 1 else { throw .duplicateKey }
        guard let key = fields["Sec-WebSocket-Key"] else { throw .missingKey }
        guard isKey(key) else { throw .invalidKey }
        let subprotocols = fields.elements(of: "Sec-WebSocket-Protocol")
        let areTokens = subprotocols.allSatisfy { $0.utf8.allSatisfy(HTTPCharacter.isToken) }
        let isOffered = fields.count(of: "Sec-WebSocket-Protocol") > 0
        guard areTokens && isOffered == !subprotocols.isEmpty else { throw .invalidSubprotocols }
        let extensions = try WebSocketExtension.list(in: fields)
        return WebSocketUpgrade(key: key, subprotocols: subprotocols, extensions: extensions)
    }

    /// Writes the response that accepts a request (RFC 6455 §4.2.2); frames follow it.
    /// - Parameters:
    ///   - subprotocol: one of the offered ones, or nil.
    ///   - headers: additional fields.
    public static func writeAcceptance(
        of upgrade: WebSocketUpgrade, subprotocol: String?, headers: HTTPFields = HTTPFields(),
        into writer: inout ByteWriter
    ) {
        writer.append("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n")
        writer.append("Connection: Upgrade\r\nSec-WebSocket-Accept: ")
        writer.append(acceptKey(for: upgrade.key))
        if let subprotocol {
            writer.append("\r\nSec-WebSocket-Protocol: ")
            writer.append(subprotocol)
        }
        writer.append("\r\n")
        HTTPResponseHead.writeFields(headers, into: &writer)
        writer.append("\r\n")
    }

    /// The response that refuses a request, with the fields that its status requires: Allow with
    /// 405, Upgrade with 426 (RFC 9110 §15.5.6, §15.5.22), and the version (RFC 6455 §4.4).
    public static func refusal(of error: WebSocketHandshakeError) -> HTTPResponse {
        var response = HTTPResponse(status: error.status, text: error.explanation + "\n")
        if error.status == 405 { response.fields.append("Allow", "GET") }
        if error.status == 426 {
            response.fields.append("Upgrade", "websocket")
            response.fields.append("Sec-WebSocket-Version", version)
        }
        return response
    }

    /// The proof that the server read the key: the base64 of a hash of it (RFC 6455 §4.2.2).
    public static func acceptKey(for key: String) -> String {
        let proof = Array(key.utf8) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8
        return Base64.text(of: SHA1.digest(of: proof))
    }

    /// Whether this is the base64 of 16 bytes: 22 digits and two padding characters.
    private static func isKey(_ key: String) -> Bool {
        key.utf8.count == 24 && key.utf8.suffix(2).elementsEqual("==".utf8)
            && key.utf8.prefix(22).allSatisfy {
                $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/")
            }
    }

    // MARK: The client's side

    /// Creates a key of 16 random bytes (RFC 6455 §4.1, 7).
    public static func makeKey() -> String {
        var generator = SystemRandomNumberGenerator()
        return Base64.text(of: (0..<16).map { _ in generator.next() })
    }

    /// Writes the request (RFC 6455 §4.1).
    /// - Parameters:
    ///   - target: path and query.
    ///   - host: host, and port unless it is the scheme's standard port.
    ///   - key: from `makeKey()`.
    ///   - subprotocols: tokens in order of preference.
    ///   - headers: additional fields, such as Authorization.
    public static func writeRequest(
        target: String, host: String, key: String, subprotocols: [String] = [],
        headers: HTTPFields = HTTPFields(), into writer: inout ByteWriter
    ) {
        var fields = HTTPFields()
        fields.append("Host", host)
        fields.append("Upgrade", "websocket")
        fields.append("Connection", "Upgrade")
        fields.append("Sec-WebSocket-Key", key)
        fields.append("Sec-WebSocket-Version", version)
        if !subprotocols.isEmpty {
            fields.append("Sec-WebSocket-Protocol", subprotocols.joined(separator: ", "))
        }
        writer.append("GET ")
        writer.append(target)
        writer.append(" HTTP/1.1\r\n")
        HTTPResponseHead.writeFields(fields, into: &writer)
        HTTPResponseHead.writeFields(headers, into: &writer)
        writer.append("\r\n")
    }

    /// Checks the answer to a request (RFC 6455 §4.1, "the client MUST validate").
    /// - Parameters:
    ///   - key: the request's key.
    ///   - subprotocols: those that the request offered.
    ///   - offersExtensions: whether the request offered extensions. The caller checks their
    ///     answer.
    /// - Returns: the selected subprotocol, if any.
    @discardableResult
    public static func validate(
        _ response: HTTPResponse, key: String, subprotocols: [String] = [],
        offersExtensions: Bool = false
    ) throws(WebSocketHandshakeError) -> String? {
        let fields = response.fields
        guard response.status == 101 else { throw .notAccepted }
        guard fields.contains(token: "websocket", in: "Upgrade") else { throw .missingUpgrade }
        guard fields.contains(token: "upgrade", in: "Connection") else {
            throw .missingConnectionUpgrade
        }
        guard fields["Sec-WebSocket-Accept"] == acceptKey(for: key) else { throw .wrongAcceptKey }
        guard offersExtensions || fields.count(of: "Sec-WebSocket-Extensions") == 0 else {
            throw .unofferedExtension
        }
        guard let selected = fields["Sec-WebSocket-Protocol"] else { return nil }
        guard subprotocols.contains(selected) else { throw .unofferedSubprotocol }
        return selected
    }
}
