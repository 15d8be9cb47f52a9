// One WebSocket connection on the generator's event loop: connecting, TLS, upgrade, framing, and
// pending writes. A process has thousands of connections, so each keeps little memory; LoadServer
// has what they share. The content of messages is not read here.

import CLinux
import Codec

/// A message that a connection passes to its owner.
enum LoadMessage {
    /// A whole event, as JSON.
    case text(UnsafeRawBufferPointer)
    /// A packet of reply audio with its header, or an echo.
    case binary(UnsafeRawBufferPointer)
}

/// A server's address, and the state that all connections to it share.
final class LoadServer {
    let address: ServerAddress
    /// One key for all connections: a random key for each would test nothing more.
    fileprivate let key = WebSocketHandshake.makeKey()
    private let request: [UInt8]
    fileprivate let tls: LoadTLSContext?
    /// The buffer in which frames are built.
    fileprivate var frames = ByteWriter(capacity: 4_096)
    fileprivate var masks = SplitMix64(state: 1)
    private var connections = 0

    /// - Throws: `LoadFailure` when TLS cannot be set up.
    init(_ address: ServerAddress) throws(LoadFailure) {
        self.address = address
        tls = address.isSecure ? try LoadTLSContext() : nil
        request = Self.request(address.target, address, key)
    }

    private static func request(
        _ target: String, _ address: ServerAddress, _ key: String
    ) -> [UInt8] {
        var writer = ByteWriter(capacity: 512)
        WebSocketHandshake.writeRequest(
            target: target, host: address.authority, key: key, into: &writer)
        return writer.copiedBytes
    }

    /// The upgrade request.
    /// - Parameter query: added to the address; nil: the request that most connections share.
    fileprivate func request(adding query: String?) -> [UInt8] {
        guard let query else { return request }
        let separator = address.target.contains("?") ? "&" : "?"
        return Self.request(address.target + separator + query, address, key)
    }

    /// The number of the next connection.
    fileprivate func nextNumber() -> Int {
        connections += 1
        return connections - 1
    }
}

/// A WebSocket connection that never blocks.
final class LoadConnection {
    /// The phase of the connection; `failed` has the reason.
    enum State: Equatable {
        case connecting, securing, upgrading, open
        case failed(String)
    }

    /// The state of an upgrade in progress.
    private struct Upgrade {
        var head: [UInt8] = []
        var parser = HTTPResponseParser()
    }

    let descriptor: Int32
    private(set) var state = State.connecting
    private let server: LoadServer
    private let query: String?
    private let tls: LoadTLS?
    private var framing = WebSocketConnection(role: .client)
    private var unsent: [UInt8] = []
    private var upgrade: Upgrade?
    private let noWait = Int32(MSG_NOSIGNAL | MSG_DONTWAIT)

    /// Begins to connect. The owner calls `handleWritable` when the socket is writable.
    /// - Parameters:
    ///   - offset: added to the connection's number, which selects its source address, so that
    ///     several processes use different ones.
    ///   - receiveBytes: size of the socket's receive buffer; nil: the kernel's default.
    ///   - query: added to the server's address.
    /// - Throws: `LoadFailure` when the connection is refused at once, or no descriptor is free.
    init(
        to server: LoadServer, offset: Int = 0, receiveBytes: Int32? = nil, query: String? = nil
    ) throws(LoadFailure) {
        self.server = server
        self.query = query
        descriptor = try server.address.beginConnecting(
            number: offset + server.nextNumber(), receiveBytes: receiveBytes)
        if let context = server.tls {
            do throws(LoadFailure) { tls = try LoadTLS(descriptor, context) } catch {
                close(descriptor)
                throw error
            }
        } else {
            tls = nil
        }
    }

    deinit { close(descriptor) }

    /// Whether the owner must wait for the socket to become writable.
    var wantsWrite: Bool { state == .connecting || !unsent.isEmpty }

    /// The socket is writable: it is connected, it could not connect, or it takes more bytes.
    func handleWritable() {
        if state == .connecting {
            var code: Int32 = 0
            var bytes = socklen_t(MemoryLayout<Int32>.size)
            getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &bytes)
            guard code == 0 else { return fail("connect: \(String(cString: strerror(code)))") }
            if tls != nil {
                state = .securing
                shakeHands()
            } else {
                beginUpgrade()
            }
        } else if state == .securing {
            shakeHands()
        } else {
            flush()
        }
    }

    private func shakeHands() {
        switch tls?.shakeHands() {
        case .done?: beginUpgrade()
        case .failed(let reason)?: fail(reason)
        case .waits?, nil: break
        }
    }

    private func beginUpgrade() {
        state = .upgrading
        upgrade = Upgrade()
        server.request(adding: query).withUnsafeBytes { write($0) }
    }

    // MARK: Sending

    /// Sends a text message.
    func send(text: String) {
        var text = text
        text.withUTF8 { send(.text, UnsafeRawBufferPointer($0)) }
    }

    /// Sends a binary message.
    func send(binary packet: [UInt8]) {
        packet.withUnsafeBytes { send(.binary, $0) }
    }

    /// Sends a message.
    func send(_ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer) {
        guard state == .open else { return }
        server.frames.removeAll()
        let mask = UInt32(truncatingIfNeeded: server.masks.next())
        WebSocketFrame.write(opcode, payload: payload, mask: mask, into: &server.frames)
        server.frames.withUnsafeBytes { write($0) }
    }

    /// Sends a Close frame with code 1000. The owner then drops the connection.
    func sendClose() {
        let code: [UInt8] = [0x03, 0xE8]
        code.withUnsafeBytes { send(.close, $0) }
    }

    /// Writes pending bytes, as many as the socket takes.
    func flush() {
        guard !unsent.isEmpty else { return }
        let waiting = unsent
        unsent = []
        waiting.withUnsafeBytes { write($0) }
    }

    private func write(_ bytes: UnsafeRawBufferPointer) {
        guard unsent.isEmpty else {
            unsent += bytes
            return
        }
        var rest = bytes
        while !rest.isEmpty {
            let count: Int
            switch transmit(rest) {
            case .done(let sent): count = sent
            case .waits: return unsent = Array(rest)
            case .failed(let reason): return fail(reason)
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    private func transmit(_ bytes: UnsafeRawBufferPointer) -> LoadTLS.Outcome {
        if let tls { return tls.write(bytes) }
        let count = CLinux.send(descriptor, bytes.baseAddress, bytes.count, noWait)
        if count >= 0 { return .done(count) }
        return parley_errno() == EAGAIN
            ? .waits(forRoom: true) : .failed("write: \(Self.errorText())")
    }

    // MARK: Receiving

    /// Reads from the socket and delivers complete messages.
    func receive(
        into buffer: UnsafeMutableRawBufferPointer, _ deliver: (LoadMessage) -> Void
    ) {
        if state == .securing { return shakeHands() }
        // OpenSSL may have bytes that it has already read from the socket.
        repeat {
            let outcome: LoadTLS.Outcome
            if let tls {
                outcome = tls.read(into: buffer)
            } else {
                let count = recv(descriptor, buffer.baseAddress, buffer.count, noWait)
                if count < 0, parley_errno() == EAGAIN { return }
                outcome = count < 0 ? .failed("read: \(Self.errorText())") : .done(count)
            }
            switch outcome {
            case .waits: return
            case .failed(let reason): return fail(reason)
            case .done(0): return fail("closed by the server")
            case .done(let count):
                take(UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), deliver)
            }
        } while tls?.hasPending == true
    }

    private func take(
        _ bytes: UnsafeMutableRawBufferPointer, _ deliver: (LoadMessage) -> Void
    ) {
        switch state {
        case .upgrading: receiveHead(bytes, deliver)
        case .open: parse(bytes, deliver)
        case .connecting, .securing, .failed: break
        }
    }

    private func receiveHead(
        _ bytes: UnsafeMutableRawBufferPointer, _ deliver: (LoadMessage) -> Void
    ) {
        guard let upgrade else { return }
        self.upgrade = nil
        var parser = upgrade.parser
        let head = upgrade.head + bytes
        do {
            let answer = try head.withUnsafeBytes { try parser.parse($0) }
            guard let (response, consumed) = answer else {
                self.upgrade = Upgrade(head: head, parser: parser)
                return
            }
            guard response.status == 101 else {
                return fail("the upgrade was refused with \(response.status)")
            }
            try WebSocketHandshake.validate(response, key: server.key)
            state = .open
            var rest = Array(head[consumed...])
            rest.withUnsafeMutableBytes { parse($0, deliver) }
        } catch {
            fail("the upgrade was refused: \(error)")
        }
    }

    private func parse(
        _ bytes: UnsafeMutableRawBufferPointer, _ deliver: (LoadMessage) -> Void
    ) {
        var input = bytes
        do throws(WebSocketError) {
            while let event = try framing.next(&input) {
                switch event {
                case .text(let payload): deliver(.text(payload))
                case .binary(let payload): deliver(.binary(payload))
                case .ping(let payload): send(.pong, payload)
                // Compression is never offered, so the codec refuses compressed messages.
                case .pong, .compressed: break
                case .close(let code, _):
                    fail("closed by the server with \(code?.rawValue ?? 1005)")
                }
            }
        } catch {
            fail("WebSocket: \(error)")
        }
    }

    private func fail(_ reason: String) {
        if case .failed = state { return }
        state = .failed(reason)
        unsent = []
        upgrade = nil
    }

    private static func errorText() -> String { String(cString: strerror(parley_errno())) }
}
