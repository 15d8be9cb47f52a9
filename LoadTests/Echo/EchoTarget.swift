// The address of a peer, and connections to it.

import CLinux
import Codec

/// A listening peer on this machine.
final class EchoTarget {
    /// Its protocol.
    let wire: EchoWire
    /// Its process, whose processor time is measured.
    let process: Int32
    private let port: UInt16
    private var opened: UInt32 = 0

    /// Names a peer on this machine.
    init(wire: EchoWire, port: UInt16, process: Int32) {
        self.wire = wire
        self.port = port
        self.process = process
    }

    /// Opens connections, and upgrades them unless they are raw. They are opened in groups that fit
    /// into a listener's queue: one at a time, each would wait for the scheduler twice.
    func open(_ count: Int) throws(LoadFailure) -> [Int32] {
        var descriptors: [Int32] = []
        while descriptors.count < count {
            var group: [Int32] = []
            for _ in 0..<min(500, count - descriptors.count) { group.append(try connect()) }
            if wire != .raw { try upgrade(group) }
            descriptors += group
        }
        return descriptors
    }

    /// Upgrades connections to WebSockets.
    func upgrade(_ descriptors: [Int32]) throws(LoadFailure) {
        let key = WebSocketHandshake.makeKey()
        let request = upgradeRequest(key: key)
        for descriptor in descriptors {
            guard parley_send(descriptor, request, request.count) == request.count else {
                throw .system("send")
            }
        }
        for descriptor in descriptors { try awaitUpgrade(of: descriptor, key: key) }
    }

    private func awaitUpgrade(of descriptor: Int32, key: String) throws(LoadFailure) {
        var head: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 2048)
        var parser = HTTPResponseParser()
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw .system("the upgrade") }
            head += buffer[..<count]
            do {
                let answer = try head.withUnsafeBytes { try parser.parse($0) }
                guard let (response, _) = answer else { continue }
                // The bytes that follow are a session's first event, which is ignored.
                try WebSocketHandshake.validate(response, key: key)
                return
            } catch {
                throw LoadFailure("the upgrade was refused: \(error)")
            }
        }
    }

    /// The upgrade request. The raw echo gets the same bytes.
    func upgradeRequest(key: String) -> [UInt8] {
        var path = "/"
        if case .webSocket(let given) = wire { path = given }
        var writer = ByteWriter(capacity: 512)
        WebSocketHandshake.writeRequest(
            target: path, host: "127.0.0.1:\(port)", key: key, into: &writer)
        return writer.copiedBytes
    }

    /// Opens a TCP connection. The source addresses rotate, because each has only 28,000 ports, and
    /// a port cannot be reused for a while.
    func connect() throws(LoadFailure) -> Int32 {
        let descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw .system("socket (is `ulimit -n` high enough?)") }
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)
        setsockopt(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, &yes, 4)
        let source = 0x7F00_0101 + opened / 8_000 % 200
        opened &+= 1
        let isConnected =
            withLoopbackName(source, 0) { bind(descriptor, $0, $1) } == 0
            && withLoopbackName(INADDR_LOOPBACK, port) { CLinux.connect(descriptor, $0, $1) } == 0
        guard isConnected else {
            let failure = LoadFailure.system("cannot connect to port \(port)")
            close(descriptor)
            throw failure
        }
        return descriptor
    }
}
