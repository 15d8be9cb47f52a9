// Pages of a server over HTTP for a command-line client. One connection is kept; a new one is made
// when it is lost. The callers know what the pages mean.

import Codec

/// Gets pages of one server.
final class PageClient {
    /// Seconds that a connection and each answer may take.
    private let patience: Int
    private let address: RealtimeURL
    private let key: String?
    private let trust: ServerTrust
    private var socket: ClientSocket?

    /// Connects with the first page.
    /// - Parameters:
    ///   - key: sent as a bearer token, if there is one.
    ///   - trust: which certificates to trust, where the URL asks for TLS.
    ///   - patience: seconds that a connection and each answer may take. The server itself waits
    ///     1 s for its shards.
    init(_ address: RealtimeURL, key: String?, trust: ServerTrust, patience: Int = 5) {
        self.patience = patience
        self.address = address
        self.key = key
        self.trust = trust
    }

    /// Gets a page.
    /// - Throws: a `CommandFailure` when the server cannot be reached, or answers anything but 200.
    func get(_ path: String) throws(CommandFailure) -> [UInt8] {
        let answer: HTTPResponse
        do throws(CommandFailure) {
            let isKept = socket != nil
            do throws(CommandFailure) {
                answer = try exchange(path)
            } catch {
                // A connection that was kept may have been closed since.
                guard isKept else { throw error }
                socket = nil
                answer = try exchange(path)
            }
        } catch {
            socket = nil
            throw error
        }
        switch answer.status {
        case 200: return answer.body
        case 401, 403:
            throw CommandFailure(
                description: "\(address.authority) refuses \(path): it needs an operator's key "
                    + "(--key, or PARLEY_API_KEY), or a client on its own machine")
        case let status:
            throw CommandFailure(
                description: "\(address.authority) answers \(path) with status \(status)")
        }
    }

    private func exchange(_ path: String) throws(CommandFailure) -> HTTPResponse {
        let socket = try connected()
        var request = ByteWriter(capacity: 512)
        request.append("GET \(path) HTTP/1.1\r\nHost: \(address.authority)\r\n")
        if let key { request.append("Authorization: Bearer \(key)\r\n") }
        request.append("\r\n")
        try socket.write(request)
        var limits = HTTPLimits()
        limits.maxBodyBytes = 16 << 20
        let (answer, _) = try socket.readResponse(
            from: address.authority, within: Double(patience), limits: limits)
        if answer.fields.contains(token: "close", in: "Connection") { self.socket = nil }
        return answer
    }

    private func connected() throws(CommandFailure) -> ClientSocket {
        if let socket { return socket }
        let made = try ClientSocket(
            host: address.host, port: address.port, patience: patience)
        if address.isSecure { try made.secure(host: address.host, trust: trust) }
        socket = made
        return made
    }
}
