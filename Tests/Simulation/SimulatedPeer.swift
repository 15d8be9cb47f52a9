// The peer's end of a simulated connection: raw bytes only. SimulatedClient interprets them.

/// A peer's socket.
package final class SimulatedPeer {
    private let socket: SimulatedSocket

    init(_ socket: SimulatedSocket) { self.socket = socket }

    /// Sends bytes. The simulated network accepts any number.
    package func send(_ bytes: [UInt8]) {
        precondition(!socket.peerEnded)
        if !socket.isReset && !socket.serverClosed { socket.inbound += bytes }
    }

    /// Sends text.
    package func send(_ text: String) { send(Array(text.utf8)) }

    /// Reads what the server has written.
    package func receive(atMost limit: Int = .max) -> [UInt8] {
        let count = min(limit, socket.outbound.count)
        defer { socket.outbound.removeFirst(count) }
        return Array(socket.outbound[..<count])
    }

    /// Bytes that the server has written and the peer has not read.
    package var unreadBytes: Int { socket.outbound.count }

    /// Maximum bytes that the server may write before the peer reads.
    package var window: Int {
        get { socket.window }
        set { socket.window = newValue }
    }

    /// Stops sending and keeps reading.
    package func finishWriting() { socket.peerEnded = true }

    /// Resets the connection.
    package func reset() { socket.isReset = true }

    /// Whether the server sends no more: it has shut down its direction or closed.
    package var isEnded: Bool { socket.serverEnded || socket.serverClosed || socket.isReset }

    /// Whether the server has closed the connection.
    package var isClosed: Bool { socket.serverClosed }

    /// Whether the connection was reset by either side.
    package var isReset: Bool { socket.isReset }
}
