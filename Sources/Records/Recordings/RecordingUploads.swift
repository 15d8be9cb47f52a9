// Takes complete files to another server: one PUT for each, signed for S3 where there is a key. The
// folder is the queue: a file stays in it until the server has taken it, across restarts.
//
// Invariant: one request at a time, on a thread of its own. A failure delays the next attempt, twice
// as long as the one before, up to a minute; other files have their turn first. A file is removed only
// after the server has taken it.

import CCurl
import CLinux
import Codec
import Glibc
import Logging
import Server
import Session

/// Where files go.
public struct RecordingUpload: Sendable {
    /// The URL that a file's day and name are appended to, with a slash at its end.
    public let url: String
    /// `ACCESS:SECRET`, for the signature of AWS (version 4); nil: requests are not signed.
    public let key: String?
    /// The region of the signature.
    public let region: String
    /// A file of certificate authorities; nil: the system's.
    public let authorities: String?
    /// libcurl's option for the proxy; nil: the variables decide.
    public var proxy: String?

    /// Describes a server.
    /// - Returns: nil where the URL has a query or a fragment, which no name can be appended to.
    public init?(url: String, key: String?, region: String, authorities: String?) {
        guard let url = Self.canonical(url) else { return nil }
        (self.url, self.key, self.region, self.authorities) = (url, key, region, authorities)
    }

    /// The URL with its path as S3 encodes it for the signature. Percent signs with capital
    /// hexadecimal digits stand for every byte but letters, digits, `-`, `.`, `_`, `~` and the
    /// slashes. libcurl signs the path as it is sent.
    private static func canonical(_ url: String) -> String? {
        guard !url.contains(where: { $0 == "?" || $0 == "#" }),
            let host = url.firstRange(of: "://")?.upperBound
        else { return nil }
        let start = url[host...].firstIndex(of: "/") ?? url.endIndex
        guard let path = HTTPRequest.percentDecoded(url[start...]) else { return nil }
        var encoded = String(url[..<start])
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "/"):
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                encoded += (byte < 16 ? "%0" : "%") + digits
            }
        }
        return encoded.hasSuffix("/") ? encoded : encoded + "/"
    }
}

/// A thread and the files that wait for it. Any thread.
final class RecordingUploads: @unchecked Sendable {
    private static let firstDelay = Duration.seconds(1)
    private static let longestDelay = Duration.seconds(60)

    /// Guards everything below; signalled for each file and for the end.
    private let lock = ConditionLock()
    private var waiting: [String] = []
    private var isStopping = false
    private var tally = RecordingCounts()
    private var thread: BackgroundThread?

    private let upload: RecordingUpload
    private let folder: RecordingFolder
    private let logger: Logger
    private let faults = ServiceFaultLog()

    /// Starts with the complete files that the folder has.
    init(_ upload: RecordingUpload, of folder: RecordingFolder, logger: Logger) {
        self.upload = upload
        self.folder = folder
        self.logger = logger
        waiting = folder.files().filter(\.isComplete).map(\.path)
        thread = BackgroundThread("uploads", niceness: BackgroundThread.addedNiceness) {
            [self] in run()
        }
    }

    var counts: RecordingCounts {
        lock.withLock {
            var counts = tally
            counts.pendingUploads = waiting.count
            return counts
        }
    }

    func add(_ paths: [String]) {
        lock.withLock {
            waiting += paths
            lock.signal()
        }
    }

    /// Ends after the request in progress has been broken off.
    func shutdown() {
        lock.withLock {
            isStopping = true
            lock.broadcast()
        }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        guard NativeMemory.isCurlReady, let easy = curl_easy_init() else {
            return logger.error("recordings are not uploaded: libcurl cannot be used")
        }
        defer { curl_easy_cleanup(easy) }
        var delay = Duration.zero
        while let path = next(after: delay) {
            let outcome = put(path, with: easy)
            note(outcome, of: path)
            switch outcome {
            case .taken:
                folder.remove(path)
                delay = .zero
                continue
            case .gone:
                delay = .zero
                continue
            case .unreadable(let reason):
                if delay == .zero {
                    logger.warning(
                        "a recording cannot be read, and will be tried again",
                        metadata: ["file": "\(folder.name(of: path))", "reason": "\(reason)"])
                }
            case .refused(let fault):
                if let fault, !hasToStop {
                    faults.note(fault, at: MonotonicClock.now, logger: logger)
                }
            }
            delay = min(max(delay * 2, Self.firstDelay), Self.longestDelay)
        }
    }

    /// Waits for a file, and for the delay; nil: the server stops.
    private func next(after delay: Duration) -> String? {
        let due = MonotonicClock.now + delay
        return lock.withLock {
            while !isStopping {
                let left = due - MonotonicClock.now
                if left > .zero {
                    lock.wait(atMost: left)
                } else if let first = waiting.first {
                    return first
                } else {
                    lock.wait()
                }
            }
            return nil
        }
    }

    /// The first file that waits was sent, or goes behind the others.
    private func note(_ outcome: Outcome, of path: String) {
        lock.withLock {
            waiting.removeFirst()
            switch outcome {
            case .taken: tally.uploads += 1
            case .gone: break
            case .unreadable, .refused:
                tally.failedUploads += 1
                waiting.append(path)
            }
        }
    }

    private var hasToStop: Bool { lock.withLock { isStopping } }

    // MARK: One request

    /// The outcome of sending a file.
    private enum Outcome {
        /// The server has it.
        case taken
        /// It was removed, and is not to be sent any more.
        case gone
        /// It waits for another attempt: the file cannot be read.
        case unreadable(String)
        /// It waits for another attempt: the server did not take it.
        case refused(ServiceFault?)
    }

    /// The content of a file while it is sent. It is read and not mapped: a disk that fails is a
    /// failed attempt.
    private final class Source {
        let size: Int
        let uploads: RecordingUploads
        let answer = ReceiverAnswer()
        private let descriptor: Int32
        private var sent = 0

        /// Takes over the descriptor.
        init(_ descriptor: Int32, size: Int, _ uploads: RecordingUploads) {
            (self.descriptor, self.size, self.uploads) = (descriptor, size, uploads)
        }

        deinit { close(descriptor) }

        /// The digest of all of it; nil: it cannot be read.
        func digest() -> SHA256Digest? {
            let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 1)
            defer { room.deallocate() }
            var hasher = SHA256Hasher()
            seek(to: 0)
            while sent < size {
                guard let count = read(into: room), count > 0 else { return nil }
                hasher.append(UnsafeRawBufferPointer(rebasing: room[..<count]))
            }
            seek(to: 0)
            return hasher.finished()
        }

        func seek(to offset: Int) { sent = offset }

        /// Reads more; nil: it cannot be read.
        func read(into room: UnsafeMutableRawBufferPointer) -> Int? {
            let wanted = min(room.count, size - sent)
            let count = pread(descriptor, room.baseAddress, wanted, off_t(sent))
            guard count >= 0 else { return nil }
            sent += count
            return count
        }

        static func from(_ context: UnsafeMutableRawPointer?) -> Source {
            Unmanaged<Source>.fromOpaque(context!).takeUnretainedValue()
        }
    }

    /// Sends a file.
    private func put(_ path: String, with easy: UnsafeMutableRawPointer) -> Outcome {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else {
            let code = errno
            return code == ENOENT ? .gone : .unreadable(String(cString: strerror(code)))
        }
        var status = stat()
        let isKnown = fstat(descriptor, &status) == 0
        let source = Source(descriptor, size: Int(status.st_size), self)
        guard isKnown, let digest = source.digest() else { return .unreadable("it cannot be read") }
        return withExtendedLifetime(source) { perform(path, source, digest, easy) }
    }

    private func perform(
        _ path: String, _ source: Source, _ digest: SHA256Digest,
        _ easy: UnsafeMutableRawPointer
    ) -> Outcome {
        curl_easy_reset(easy)
        func set(_ option: CURLoption, _ text: String) {
            _ = text.withCString { parley_curl_set_pointer(easy, option, $0) }
        }
        set(CURLOPT_URL, upload.url + folder.name(of: path))
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_USERAGENT, "parley")
        if let authorities = upload.authorities { set(CURLOPT_CAINFO, authorities) }
        if let proxy = upload.proxy { set(CURLOPT_PROXY, proxy) }
        parley_curl_set_long(easy, CURLOPT_NOSIGNAL, 1)
        parley_curl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, 10_000)
        // Half a minute without progress is a failure, however long the whole file takes.
        parley_curl_set_long(easy, CURLOPT_LOW_SPEED_LIMIT, 1)
        parley_curl_set_long(easy, CURLOPT_LOW_SPEED_TIME, 30)
        // S3 wants the digest of the body among the signed fields. A field without a value, such as
        // `Expect:`, would be signed and not sent by this version of libcurl.
        var fields = curl_slist_append(nil, "Content-Type: audio/ogg")
        defer { curl_slist_free_all(fields) }
        if let key = upload.key {
            set(CURLOPT_USERPWD, key)
            set(CURLOPT_AWS_SIGV4, "aws:amz:\(upload.region):s3")
            fields = curl_slist_append(
                fields, "x-amz-content-sha256: \(digest.hexadecimal())")
        }
        parley_curl_set_pointer(easy, CURLOPT_HTTPHEADER, fields)
        setCallbacks(source, easy)
        let result = curl_easy_perform(easy)
        var status = 0
        if result == CURLE_OK { parley_curl_info_long(easy, CURLINFO_RESPONSE_CODE, &status) }
        if (200..<300).contains(status) { return .taken }
        var fault = source.answer.fault(
            of: ServiceFault.uploads, at: upload.url, status: status,
            reason: result == CURLE_OK
                ? "a recording was not taken" : String(cString: curl_easy_strerror(result)),
            easy)
        // As it is: a long name would else be left out, because it could be a key.
        fault?.url += folder.name(of: path)
        return .refused(fault)
    }

    private func setCallbacks(_ source: Source, _ easy: UnsafeMutableRawPointer) {
        parley_curl_set_upload(
            easy, curl_off_t(source.size),
            { target, size, count, context in
                let room = UnsafeMutableRawBufferPointer(start: target, count: size * count)
                return Source.from(context).read(into: room) ?? Int(CURL_READFUNC_ABORT)
            },
            { context, offset, origin in
                let source = Source.from(context)
                guard origin == SEEK_SET, (0...source.size).contains(Int(offset)) else {
                    return CURL_SEEKFUNC_FAIL
                }
                source.seek(to: Int(offset))
                return CURL_SEEKFUNC_OK
            },
            { context, _, _, _, _ in Source.from(context).uploads.hasToStop ? 1 : 0 },
            { bytes, size, count, context in
                Source.from(context).answer.append(bytes, count: size * count)
                return size * count
            },
            Unmanaged.passUnretained(source).toOpaque())
    }
}
