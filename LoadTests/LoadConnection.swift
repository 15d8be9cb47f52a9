// One session's connection on the generator's loop: upgrade, framing, writes that wait for room.
// What the messages mean is in SessionObserver.

import CLinux
import Codec

/// What a connection hands to its owner.
enum LoadMessage {
    /// A whole event, as JSON.
    case text(UnsafeRawBufferPointer)
    /// A packet of reply audio with its header.
    case binary(UnsafeRawBufferPointer)
}

/// A WebSocket connection that never blocks.
final class LoadConnection {
    /// How far it has come; `failed` keeps the reason.
    enum State: Equatable {
        case upgrading, open
        case failed(String)
    }

    /// The socket.
    let descriptor: Int32
    private(set) var state = State.upgrading
    /// Whether bytes wait for room in the socket.
    var wantsWrite: Bool { unsent.count > 0 }
    private var framing = WebSocketConnection(role: .client)
    private var unsent = ByteWriter(capacity: 512)
    private var head: [UInt8] = []
    private var parser = HTTPResponseParser()
    private let key = WebSocketHandshake.makeKey()
    private let noWait = Int32(MSG_NOSIGNAL | MSG_DONTWAIT)

    /// Connects and sends the upgrade request.
    /// - Throws: `LoadFailure` when nobody listens, or descriptors have run out.
    init(to server: ServerAddress) throws(LoadFailure) {
        descriptor = try server.connect()
        WebSocketHandshake.writeRequest(
            target: server.target, host: server.authority, key: key, into: &unsent)
        flush()
    }

    deinit { close(descriptor) }

    /// Sends a text message.
    func send(text: String) {
        var text = text
        text.withUTF8 { send(.text, UnsafeRawBufferPointer($0)) }
    }

    /// Sends a binary message.
    func send(binary packet: [UInt8]) {
        packet.withUnsafeBytes { send(.binary, $0) }
    }

    private func send(_ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer) {
        guard state == .open else { return }
        WebSocketFrame.write(
            opcode, payload: payload, mask: .random(in: 0 ... .max), into: &unsent)
        flush()
    }

    /// Writes what waits, as far as there is room.
    func flush() {
        while unsent.count > 0 {
            let count = unsent.withUnsafeBytes {
                CLinux.send(descriptor, $0.baseAddress, $0.count, noWait)
            }
            if count == unsent.count {
                unsent.removeAll()
            } else if count > 0 {
                let rest = unsent.copiedBytes[count...]
                unsent.removeAll()
                rest.withUnsafeBytes { unsent.append($0) }
            } else {
                if parley_errno() != EAGAIN { fail("write: \(errorText())") }
                return
            }
        }
    }

    /// Reads what has come and hands over its messages.
    func receive(
        into buffer: UnsafeMutableRawBufferPointer, _ deliver: (LoadMessage) -> Void
    ) {
        let count = recv(descriptor, buffer.baseAddress, buffer.count, noWait)
        guard count > 0 else {
            if count < 0 && parley_errno() == EAGAIN { return }
            return fail(count == 0 ? "closed by the server" : "read: \(errorText())")
        }
        let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        switch state {
        case .upgrading: receiveHead(bytes, deliver)
        case .open: parse(bytes, deliver)
        case .failed: break
        }
    }

    private func receiveHead(
        _ bytes: UnsafeMutableRawBufferPointer, _ deliver: (LoadMessage) -> Void
    ) {
        head += bytes
        do {
            let answer = try head.withUnsafeBytes { try parser.parse($0) }
            guard let (response, consumed) = answer else { return }
            try WebSocketHandshake.validate(response, key: key)
            state = .open
            var rest = Array(head[consumed...])
            head = []
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
                // Compression is never offered, so that the codec lets no such message pass.
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
        unsent.removeAll()
    }

    private func errorText() -> String { String(cString: strerror(parley_errno())) }
}
