// Requests to the server of uploads by libcurl: PUT and DELETE, signed for S3 where there is a key.

import Agents
import CCurl
import Codec
import Glibc
import Server
import Session
import Synchronization

/// The server of uploads. Confined to one thread but for `breakOff`.
final class UploadConnection: UploadReceiver, @unchecked Sendable {
    private let upload: RecordingUpload
    private let easy: UnsafeMutableRawPointer
    private let isBrokenOff = Atomic(false)

    /// - Returns: nil where libcurl cannot be used.
    init?(_ upload: RecordingUpload) {
        guard NativeMemory.isCurlReady, let easy = curl_easy_init() else { return nil }
        self.upload = upload
        self.easy = easy
    }

    deinit { curl_easy_cleanup(easy) }

    /// Breaks off the request in progress, and each later one. Any thread.
    func breakOff() { isBrokenOff.store(true, ordering: .relaxed) }

    // MARK: Requests

    /// Sends a file.
    func put(_ source: UploadSource, at place: String) -> UploadOutcome {
        prepare(place)
        let exchange = Exchange(self, sending: source)
        let result = perform(exchange, ["Content-Type: audio/ogg"], source.digest)
        if (200..<300).contains(result.status) { return .done }
        return refusal(exchange, result, "a recording was not taken", place)
    }

    /// Deletes a file. S3 answers 204 whether it was there or not, others may answer 404.
    func delete(_ place: String) -> UploadOutcome {
        prepare(place)
        set(CURLOPT_CUSTOMREQUEST, "DELETE")
        let exchange = Exchange(self, sending: nil)
        let result = perform(exchange, [], SHA256Digest(of: ""))
        if (200..<300).contains(result.status) { return .done }
        // Without its bucket nothing is known of the file.
        let isMissing = result.status == 404 && !exchange.answer.text.contains("NoSuchBucket")
        if isMissing || result.status == 410 { return .missing }
        return refusal(exchange, result, "a recording was not deleted", place)
    }

    private func set(_ option: CURLoption, _ text: String) {
        _ = text.withCString { parley_curl_set_pointer(easy, option, $0) }
    }

    private func prepare(_ place: String) {
        curl_easy_reset(easy)
        set(CURLOPT_URL, upload.url + place)
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_USERAGENT, "parley")
        if let authorities = upload.authorities { set(CURLOPT_CAINFO, authorities) }
        if let proxy = upload.proxy { set(CURLOPT_PROXY, proxy) }
        parley_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        parley_curl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, 10_000)
        // Half a minute without progress is a failure, however long the whole file takes.
        parley_curl_set_long(easy, CURLOPT_LOW_SPEED_LIMIT, 1)
        parley_curl_set_long(easy, CURLOPT_LOW_SPEED_TIME, 30)
    }

    /// How a request has ended: `status` is 0 where there was no answer.
    private typealias Result = (code: CURLcode, status: Int)

    /// - Parameter digest: of the body. S3 wants it among the signed fields.
    private func perform(
        _ exchange: Exchange, _ fields: [String], _ digest: SHA256Digest
    ) -> Result {
        var fields = fields
        if let key = upload.key {
            set(CURLOPT_USERPWD, key)
            set(CURLOPT_AWS_SIGV4, "aws:amz:\(upload.region):s3")
            fields.append("x-amz-content-sha256: \(digest.hexadecimal())")
        }
        // A field without a value, such as `Expect:`, would be signed and not sent by this version of
        // libcurl.
        let list = fields.reduce(nil) { curl_slist_append($0, $1) }
        defer { curl_slist_free_all(list) }
        parley_curl_set_pointer(easy, CURLOPT_HTTPHEADER, list)
        return withExtendedLifetime(exchange) {
            setCallbacks(exchange)
            let code = curl_easy_perform(easy)
            var status = 0
            if code == CURLE_OK { parley_curl_info_long(easy, CURLINFO_RESPONSE_CODE, &status) }
            return (code, status)
        }
    }

    private func refusal(
        _ exchange: Exchange, _ result: Result, _ reason: String, _ place: String
    ) -> UploadOutcome {
        guard !isBrokenOff.load(ordering: .relaxed) else { return .refused(nil) }
        var fault = exchange.answer.fault(
            of: ServiceFault.uploads, at: upload.url, status: result.status,
            reason: result.code == CURLE_OK
                ? reason : String(cString: curl_easy_strerror(result.code)),
            easy)
        // As it is: a long name would otherwise be left out, because it could be a key.
        fault?.url += place
        return .refused(fault)
    }

    // MARK: Callbacks

    /// The file that libcurl reads and the answer that it writes in one request.
    private final class Exchange {
        let source: UploadSource?
        let answer = ReceiverAnswer()
        private let connection: UploadConnection

        init(_ connection: UploadConnection, sending source: UploadSource?) {
            (self.connection, self.source) = (connection, source)
        }

        var isBrokenOff: Bool { connection.isBrokenOff.load(ordering: .relaxed) }

        static func from(_ context: UnsafeMutableRawPointer?) -> Exchange {
            Unmanaged<Exchange>.fromOpaque(context!).takeUnretainedValue()
        }
    }

    private func setCallbacks(_ exchange: Exchange) {
        let context = Unmanaged.passUnretained(exchange).toOpaque()
        parley_curl_set_exchange(
            easy, { context, _, _, _, _ in Exchange.from(context).isBrokenOff ? 1 : 0 },
            { bytes, size, count, context in
                Exchange.from(context).answer.append(bytes, count: size * count)
                return size * count
            },
            context)
        guard let source = exchange.source else { return }
        parley_curl_set_upload(
            easy, curl_off_t(source.size),
            { target, size, count, context in
                let room = UnsafeMutableRawBufferPointer(start: target, count: size * count)
                return Exchange.from(context).source?.read(into: room) ?? Int(CURL_READFUNC_ABORT)
            },
            { context, offset, origin in
                guard let source = Exchange.from(context).source, origin == SEEK_SET,
                    (0...source.size).contains(Int(offset))
                else { return CURL_SEEKFUNC_FAIL }
                source.seek(to: Int(offset))
                return CURL_SEEKFUNC_OK
            },
            context)
    }
}
