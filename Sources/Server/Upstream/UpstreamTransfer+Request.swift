// One HTTP request as libcurl's options, fields and body, and the callbacks that bring the answer.
// UpstreamTransfer handles the answer.
//
// Invariant: a value that a client has chosen cannot set another field or scheme.

import CCurl
import CLinux
import Codec
import Session

extension UpstreamTransfer {
    /// The transfer that a handle was made for; nil for one of libcurl's own.
    static func transfer(of easy: UnsafeMutableRawPointer?) -> UpstreamTransfer? {
        guard let easy else { return nil }
        var context: UnsafeMutableRawPointer?
        parley_curl_info_pointer(easy, CURLINFO_PRIVATE, &context)
        return context.map { Unmanaged<UpstreamTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> UpstreamTransfer {
        Unmanaged<UpstreamTransfer>.fromOpaque(context!).takeUnretainedValue()
    }

    /// Uses a new connection, even if one is kept.
    func connectAnew() { setNumber(CURLOPT_FRESH_CONNECT, 1) }

    /// Closes its connection at the end. One in which other requests are under way stays open.
    func closeConnection() {
        keepsConnection = false
        setNumber(CURLOPT_FORBID_REUSE, 1)
    }

    func configure(
        _ request: UpstreamRequest, receiveBufferBytes: Int, _ authorities: String?, proxy: String?
    ) {
        parley_curl_set_pointer(easy, CURLOPT_ERRORBUFFER, errorText)
        setText(CURLOPT_URL, request.url)
        setText(CURLOPT_PROTOCOLS_STR, "http,https")
        setText(CURLOPT_USERAGENT, "parley")
        if let authorities { setText(CURLOPT_CAINFO, authorities) }
        // Without this option libcurl reads the variables http_proxy, https_proxy and all_proxy.
        if let proxy = request.usesProxy ? proxy : "" { setText(CURLOPT_PROXY, proxy) }
        setNumber(CURLOPT_NOSIGNAL, 1)
        // Otherwise removing a transfer whose name is still being resolved would wait for the
        // resolver's thread, and block the whole shard.
        setNumber(CURLOPT_QUICK_EXIT, 1)
        setNumber(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        setNumber(CURLOPT_BUFFERSIZE, receiveBufferBytes)
        setNumber(CURLOPT_UPLOAD_BUFFERSIZE, Int(CURL_MAX_WRITE_SIZE))
        // HTTP/2 where TLS offers it, one connection for many turns; HTTP/1.1 otherwise.
        setNumber(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // Over TLS a request waits for a connection in the making that may carry many; plain HTTP
        // never can, and would wait for the whole answer before it.
        if isOverTLS { setNumber(CURLOPT_PIPEWAIT, 1) }
        if request.reachesOnlyPublicAddresses { confineToPublicAddresses() }
        setMethod(request)
        // libcurl would wait up to a second for `100 Continue` before a large body.
        headerList = curl_slist_append(headerList, "Expect:")
        for field in request.headers {
            // `Name;` is libcurl's way to send a field without a value.
            let line = field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)"
            headerList = curl_slist_append(headerList, line)
        }
        parley_curl_set_pointer(easy, CURLOPT_HTTPHEADER, headerList)
        parley_curl_set_callbacks(
            easy,
            { bytes, size, count, context in
                let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return UpstreamTransfer.from(context).handleHead(line) ? line.count : 0
            },
            { bytes, size, count, context in
                let piece = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return UpstreamTransfer.from(context).handleBody(piece)
                    ? piece.count : Int(CURL_WRITEFUNC_PAUSE)
            },
            Unmanaged.passUnretained(self).toOpaque())
    }

    /// Connects to public addresses only. libcurl calls back before each socket that it opens, for
    /// every address of a name and of a redirect. So a private address gets no packet, and the
    /// refusal is the same whatever listens there.
    ///
    /// The request gets a connection of its own: one that another request has left may lead to a
    /// private address. It uses no proxy: libcurl would call back with the proxy's address.
    private func confineToPublicAddresses() {
        isConfined = true
        setText(CURLOPT_PROXY, "")
        connectAnew()
        closeConnection()
        parley_curl_set_address_rules(
            easy,
            { context, _, address in
                guard let address, NetworkAddress(socketAddress: address)?.isPublic == true else {
                    UpstreamTransfer.from(context).handlePrivateAddress()
                    return -1
                }
                let type = address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
                return socket(address.pointee.family, type, address.pointee.protocol)
            },
            // A second check, in case libcurl takes a connection that it did not open here.
            { context, peer, _, _, _ in
                let address = peer.flatMap { NetworkAddress(String(cString: $0)) }
                if address?.isPublic == true { return CURL_PREREQFUNC_OK }
                UpstreamTransfer.from(context).handlePrivateAddress()
                return CURL_PREREQFUNC_ABORT
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private func setMethod(_ request: UpstreamRequest) {
        if !request.body.isEmpty || request.method == "POST" {
            setNumber(CURLOPT_POSTFIELDSIZE, request.body.count)
            // libcurl's own copy of the body: ours may move.
            request.body.withUnsafeBytes { body in
                _ = parley_curl_set_pointer(
                    easy, CURLOPT_COPYPOSTFIELDS, body.baseAddress ?? UnsafeRawPointer(easy))
            }
        }
        if request.method == "HEAD" {
            setNumber(CURLOPT_NOBODY, 1)
        } else if request.method != "POST" {
            setText(CURLOPT_CUSTOMREQUEST, request.method)
        }
    }

    private func setNumber(_ option: CURLoption, _ value: Int) {
        let result = parley_curl_set_long(easy, option, value)
        precondition(result == CURLE_OK, "libcurl refuses option \(option.rawValue)")
    }

    private func setText(_ option: CURLoption, _ value: String) {
        _ = value.withCString { parley_curl_set_pointer(easy, option, $0) }
    }

    /// Whether a field cannot smuggle another one into the request (RFC 9110 §5.5).
    static func isSafe(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 32 && $0 != 127 || $0 == 9 }
    }

    /// Scheme and authority without credentials.
    static func origin(of url: String) -> String {
        let bytes = Array(url.utf8)
        var start = 0
        if let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
            bytes[colon...].starts(with: "://".utf8)
        {
            start = colon + 3
        }
        let end = bytes[start...].firstIndex { "/?#".utf8.contains($0) } ?? bytes.count
        let authority = bytes[start..<end]
        let host = authority.lastIndex(of: UInt8(ascii: "@")).map { authority[($0 + 1)...] }
        return String(decoding: bytes[..<start] + (host ?? authority), as: UTF8.self)
    }
}

extension NetworkAddress {
    /// The address that libcurl is about to connect to; nil where it is of another family.
    fileprivate init?(socketAddress: UnsafeMutablePointer<curl_sockaddr>) {
        let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr)!
        let start = UnsafeRawPointer(socketAddress) + offset
        var address = sockaddr_in6()
        let length = Int(socketAddress.pointee.addrlen)
        switch socketAddress.pointee.family {
        case AF_INET where length >= MemoryLayout<sockaddr_in>.size,
            AF_INET6 where length >= MemoryLayout<sockaddr_in6>.size:
            withUnsafeMutableBytes(of: &address) {
                $0.copyMemory(
                    from: UnsafeRawBufferPointer(start: start, count: min(length, $0.count)))
            }
            self.init(address)
        default: return nil
        }
    }
}
