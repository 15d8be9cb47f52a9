// The far end of a simulated connection: bytes only. What they mean is SimulatedClient's.

/// A peer's socket.
package final class SimulatedPeer {
    private let socket: SimulatedSocket

    init(_ socket: SimulatedSocket) { self.socket = socket }

    /// Sends bytes; there always is room, the network is patient.
    package func send(_ bytes: [UInt8]) {
        precondition(!socket.peerEnded)
        if !socket.isReset && !socket.serverClosed { socket.inbound += bytes }
    }

    /// Sends text.
    package func send(_ text: String) { send(Array(text.utf8)) }

    /// Takes what the server has written.
    package func receive(atMost limit: Int = .max) -> [UInt8] {
        let count = min(limit, socket.outbound.count)
        defer { socket.outbound.removeFirst(count) }
        return Array(socket.outbound[..<count])
    }

    /// What the server has written and nobody has read.
    package var unreadBytes: Int { socket.outbound.count }

    /// How many bytes the server may write before somebody reads.
    package var window: Int {
        get { socket.window }
        set { socket.window = newValue }
    }

    /// Sends no more, and still reads.
    package func finishWriting() { socket.peerEnded = true }

    /// Goes away without a word.
    package func reset() { socket.isReset = true }

    /// Whether the server sends no more: its direction is shut, or it has closed.
    package var isEnded: Bool { socket.serverEnded || socket.serverClosed || socket.isReset }

    /// Whether the server holds the connection no more.
    package var isClosed: Bool { socket.serverClosed }

    /// Whether the connection was reset by either side.
    package var isReset: Bool { socket.isReset }
}
