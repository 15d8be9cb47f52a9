// A stream of bytes to a Redis server or another node on the shard's event loop. libcurl resolves the
// name, connects and makes TLS; then its socket is read and written here. No protocol lives here.
//
// libcurl does all of that without blocking. The alternative was a resolver on the worker threads
// and a second user of OpenSSL's client side.
//
// Invariant: confined to the loop's thread. libcurl is never entered from one of its callbacks.
// After `close()` no descriptor is watched and no callback comes.

import CCurl
import CLinux
import Codec
import Session

/// The owner of sockets: the loop, and the table that leads its reports to a socket.
protocol OutgoingSocketOwner: AnyObject {
    /// The loop's time.
    var now: Instant { get }
    /// Watches a descriptor of a socket, or changes what it is watched for.
    func watch(fd: Int32, readable: Bool, writable: Bool, of socket: OutgoingSocket)
    /// Ends the watch.
    func unwatch(fd: Int32)
}

/// One connection, in the making or open.
final class OutgoingSocket {
    /// The state of the connection.
    enum State: Equatable {
        case connecting
        case open
        /// A sentence's end for the operator.
        case failed(String)
    }

    /// The outcome of a read.
    enum Received: Equatable {
        /// The number of bytes, 1 or more.
        case bytes(Int)
        case nothing
        case lost(String)
    }

    private(set) var state = State.connecting
    /// When libcurl needs a call of `handleTimer()`, or nil where it needs none.
    private(set) var deadline: Instant?
    private unowned let owner: any OutgoingSocketOwner
    private var multi: UnsafeMutableRawPointer?
    private var easy: UnsafeMutableRawPointer?
    private let errorText: UnsafeMutablePointer<CChar>
    /// The descriptor of the open connection; −1 before.
    private var descriptor: Int32 = -1
    private var waitsForRoom = false
    /// Whether the loop reports bytes that come. While it does not, they wait in the kernel, and then
    /// at the peer.
    var isReading = true {
        didSet { if isReading != oldValue { review() } }
    }

    /// Begins to connect.
    /// - Parameters:
    ///   - url: `http://HOST:PORT`, or with `https` for TLS. Nothing is sent but the bytes that
    ///     `send` gets.
    ///   - authorities: PEM file of the authorities that the server's certificate is checked
    ///     against. The default is the system's.
    init(to url: String, authorities: String?, owner: any OutgoingSocketOwner) {
        self.owner = owner
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        let payer = NativePayer.suspend()
        defer { payer.end() }
        guard NativeMemory.isCurlReady, let multi = curl_multi_init(), let easy = curl_easy_init()
        else {
            state = .failed("libcurl could not be started")
            return
        }
        (self.multi, self.easy) = (multi, easy)
        configure(easy, url, authorities)
        parley_curl_multi_set_callbacks(
            multi,
            { _, fd, what, context, _ in
                OutgoingSocket.from(context).handleInterest(fd: fd, what: what)
                return 0
            },
            { _, milliseconds, context in
                OutgoingSocket.from(context).handleCurlTimer(milliseconds: milliseconds)
                return 0
            },
            Unmanaged.passUnretained(self).toOpaque())
        guard curl_multi_add_handle(multi, easy) == CURLM_OK else {
            state = .failed("libcurl refused the connection")
            return
        }
        enter(CURL_SOCKET_TIMEOUT, 0)
    }

    deinit {
        // The owner may be freed; closing a socket ends its watch.
        if let multi { parley_curl_multi_set_callbacks(multi, nil, nil, nil) }
        releaseHandles()
        errorText.deallocate()
    }

    /// Closes the connection.
    func close() {
        if descriptor >= 0 { owner.unwatch(fd: descriptor) }
        releaseHandles()
    }

    private func releaseHandles() {
        guard let multi else { return }
        let payer = NativePayer.suspend()
        defer { payer.end() }
        (self.multi, deadline, descriptor) = (nil, nil, -1)
        if let easy { curl_multi_remove_handle(multi, easy) }
        parley_curl_multi_set_callbacks(multi, nil, nil, nil)
        if let easy { curl_easy_cleanup(easy) }
        easy = nil
        curl_multi_cleanup(multi)
    }

    private func configure(
        _ easy: UnsafeMutableRawPointer, _ url: String, _ authorities: String?
    ) {
        func set(_ option: CURLoption, _ number: Int) {
            let result = parley_curl_set_long(easy, option, number)
            precondition(result == CURLE_OK, "libcurl refuses option \(option.rawValue)")
        }
        func set(_ option: CURLoption, _ text: String) {
            _ = text.withCString { parley_curl_set_pointer(easy, option, $0) }
        }
        parley_curl_set_pointer(easy, CURLOPT_ERRORBUFFER, errorText)
        set(CURLOPT_URL, url)
        set(CURLOPT_CONNECT_ONLY, 1)
        set(CURLOPT_PROXY, "")
        set(CURLOPT_NOSIGNAL, 1)
        // Otherwise closing waits for the resolver's thread, and with it the whole shard.
        set(CURLOPT_QUICK_EXIT, 1)
        set(CURLOPT_SSL_ENABLE_ALPN, 0)
        set(CURLOPT_TCP_KEEPALIVE, 1)
        if let authorities { set(CURLOPT_CAINFO, authorities) }
    }

    // MARK: What the loop reports

    /// A watched descriptor is ready, before the connection is open.
    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {
        var ready: Int32 = 0
        if readable { ready |= CURL_CSELECT_IN }
        if writable { ready |= CURL_CSELECT_OUT }
        if failed { ready |= CURL_CSELECT_ERR }
        enter(fd, ready)
    }

    /// The time of `deadline` has come.
    func handleTimer() {
        deadline = nil
        enter(CURL_SOCKET_TIMEOUT, 0)
    }

    private func enter(_ fd: Int32, _ ready: Int32) {
        guard let multi, state == .connecting else { return }
        let payer = NativePayer.suspend()
        defer { payer.end() }
        var running: Int32 = 0
        _ = curl_multi_socket_action(multi, fd, ready, &running)
        var remaining: Int32 = 0
        while let message = curl_multi_info_read(multi, &remaining) {
            guard message.pointee.msg == CURLMSG_DONE else { continue }
            finishConnecting(parley_curl_message_result(message))
        }
    }

    private func finishConnecting(_ result: CURLcode) {
        deadline = nil
        guard result == CURLE_OK, let easy else {
            let text = String(cString: errorText)
            state = .failed(text.isEmpty ? String(cString: curl_easy_strerror(result)) : text)
            return
        }
        var fd: curl_socket_t = -1
        guard parley_curl_info_socket(easy, &fd) == CURLE_OK, fd >= 0 else {
            state = .failed("the connection was closed at once")
            return
        }
        descriptor = fd
        state = .open
        review()
    }

    private func handleInterest(fd: Int32, what: Int32) {
        // The open connection is watched by this type.
        guard state != .open else { return }
        if what == CURL_POLL_REMOVE {
            owner.unwatch(fd: fd)
        } else {
            owner.watch(
                fd: fd, readable: what & CURL_POLL_IN != 0, writable: what & CURL_POLL_OUT != 0,
                of: self)
        }
    }

    /// Only notes the time: libcurl may not be entered from its own callback.
    private func handleCurlTimer(milliseconds: Int) {
        deadline = milliseconds < 0 ? nil : owner.now + .milliseconds(milliseconds)
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> OutgoingSocket {
        Unmanaged<OutgoingSocket>.fromOpaque(context!).takeUnretainedValue()
    }

    // MARK: Bytes

    /// Reads the bytes that have come. Call it until it returns none: the loop does not report what
    /// TLS has already decrypted.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Received {
        guard let easy, state == .open else { return .nothing }
        var count = 0
        let result = curl_easy_recv(easy, buffer.baseAddress, buffer.count, &count)
        switch result {
        case CURLE_OK where count > 0: return .bytes(count)
        case CURLE_OK: return .lost("it has closed the connection")
        case CURLE_AGAIN: return .nothing
        default: return .lost(String(cString: curl_easy_strerror(result)))
        }
    }

    /// Writes the bytes that there is room for. The loop reports when there is more room.
    /// - Returns: how many bytes were written, or nil where the connection is lost.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let easy, state == .open, bytes.count > 0 else { return 0 }
        var count = 0
        let result = curl_easy_send(easy, bytes.baseAddress, bytes.count, &count)
        guard result == CURLE_OK || result == CURLE_AGAIN else { return nil }
        let isBlocked = result == CURLE_AGAIN || count < bytes.count
        if isBlocked != waitsForRoom {
            waitsForRoom = isBlocked
            review()
        }
        return count
    }

    /// Watches for what can be used now. A descriptor that is watched for nothing would still report
    /// a peer that is gone, again and again.
    private func review() {
        guard state == .open, descriptor >= 0 else { return }
        if isReading || waitsForRoom {
            owner.watch(fd: descriptor, readable: isReading, writable: waitsForRoom, of: self)
        } else {
            owner.unwatch(fd: descriptor)
        }
    }
}
