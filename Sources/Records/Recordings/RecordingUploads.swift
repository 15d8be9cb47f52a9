// Takes complete files to another server: one PUT for each, signed for S3 where there is a key. The
// folder is the queue: a file stays in it until the server has taken it, across restarts.
//
// Invariant: one request at a time, on a thread of its own. A failure delays the next attempt, twice
// as long as the one before, up to a minute; other files have their turn first.

import CCurl
import CLinux
import Codec
import Glibc
import Logging
import Server
import Session

/// Where files go.
public struct RecordingUpload: Sendable {
    /// The URL that a file's day and name are appended to.
    public var url: String
    /// `ACCESS:SECRET`, for the signature of AWS (version 4); nil: requests are not signed.
    public var key: String?
    /// The region of the signature.
    public var region: String
    /// A file of certificate authorities; nil: the system's.
    public var authorities: String?

    /// Describes a server.
    public init(url: String, key: String?, region: String, authorities: String?) {
        (self.url, self.key, self.region, self.authorities) = (url, key, region, authorities)
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
    private var thread: pthread_t?

    private let upload: RecordingUpload
    private let folder: RecordingFolder
    private let logger: Logger

    /// Starts with the complete files that the folder has.
    init(_ upload: RecordingUpload, of folder: RecordingFolder, logger: Logger) {
        self.upload = upload
        self.folder = folder
        self.logger = logger
        waiting = folder.files().map(\.path).filter { $0.hasSuffix(RecordingFolder.ending) }
        thread = startThread { [self] in run() }
        precondition(thread != nil, "a thread for uploads cannot be started")
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
        let thread = lock.withLock { () -> pthread_t? in
            isStopping = true
            lock.broadcast()
            return self.thread.take()
        }
        if let thread { pthread_join(thread, nil) }
    }

    // MARK: The thread

    private func run() {
        _ = nice(5)
        pthread_setname_np(pthread_self(), "uploads")
        guard NativeMemory.isCurlReady, let easy = curl_easy_init() else {
            return logger.error("recordings are not uploaded: libcurl cannot be used")
        }
        defer { curl_easy_cleanup(easy) }
        var delay = Duration.zero
        while let path = next(after: delay) {
            let outcome = put(path, with: easy)
            let isDone = outcome == nil
            lock.withLock {
                guard let index = waiting.firstIndex(of: path) else { return }
                waiting.remove(at: index)
                if !isDone { waiting.append(path) }
                if isDone { tally.uploads += 1 } else { tally.failedUploads += 1 }
            }
            if let outcome {
                if delay == .zero {
                    logger.warning(
                        "a recording was not uploaded, and will be tried again",
                        metadata: ["file": "\(folder.name(of: path))", "reason": "\(outcome)"])
                }
                delay = min(max(delay * 2, Self.firstDelay), Self.longestDelay)
            } else {
                folder.remove(path)
                delay = .zero
            }
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

    private var hasToStop: Bool { lock.withLock { isStopping } }

    // MARK: One request

    /// What is read of a file while it is sent.
    private final class Source {
        let bytes: UnsafeRawBufferPointer
        let uploads: RecordingUploads
        var sent = 0

        init(_ bytes: UnsafeRawBufferPointer, _ uploads: RecordingUploads) {
            self.bytes = bytes
            self.uploads = uploads
        }

        static func from(_ context: UnsafeMutableRawPointer?) -> Source {
            Unmanaged<Source>.fromOpaque(context!).takeUnretainedValue()
        }
    }

    /// Sends a file.
    /// - Returns: nil when the server has taken it, or it is gone; else why not.
    private func put(_ path: String, with easy: UnsafeMutableRawPointer) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        // Somebody has removed it: there is nothing to be sent.
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_size > 0 else { return nil }
        let size = Int(status.st_size)
        guard let start = mmap(nil, size, PROT_READ, MAP_PRIVATE, descriptor, 0),
            start != MAP_FAILED
        else { return "it cannot be read" }
        defer { munmap(start, size) }
        let source = Source(UnsafeRawBufferPointer(start: start, count: size), self)
        return withExtendedLifetime(source) { perform(path, source, easy) }
    }

    private func perform(
        _ path: String, _ source: Source, _ easy: UnsafeMutableRawPointer
    ) -> String? {
        curl_easy_reset(easy)
        func set(_ option: CURLoption, _ text: String) {
            _ = text.withCString { parley_curl_set_pointer(easy, option, $0) }
        }
        let base = upload.url.hasSuffix("/") ? upload.url : upload.url + "/"
        set(CURLOPT_URL, base + folder.name(of: path))
        set(CURLOPT_PROTOCOLS_STR, "http,https")
        set(CURLOPT_USERAGENT, "parley")
        if let authorities = upload.authorities { set(CURLOPT_CAINFO, authorities) }
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
            let digest = SHA256Digest(of: source.bytes).hexadecimal()
            fields = curl_slist_append(fields, "x-amz-content-sha256: \(digest)")
        }
        parley_curl_set_pointer(easy, CURLOPT_HTTPHEADER, fields)
        setCallbacks(source, easy)
        let result = curl_easy_perform(easy)
        guard result == CURLE_OK else { return String(cString: curl_easy_strerror(result)) }
        var status = 0
        parley_curl_info_long(easy, CURLINFO_RESPONSE_CODE, &status)
        return (200..<300).contains(status) ? nil : "the server answered \(status)"
    }

    private func setCallbacks(_ source: Source, _ easy: UnsafeMutableRawPointer) {
        parley_curl_set_upload(
            easy, curl_off_t(source.bytes.count),
            { target, size, count, context in
                let source = Source.from(context)
                let length = min(size * count, source.bytes.count - source.sent)
                guard let target, length > 0 else { return 0 }
                memcpy(target, source.bytes.baseAddress! + source.sent, length)
                source.sent += length
                return length
            },
            { context, offset, origin in
                let source = Source.from(context)
                guard origin == SEEK_SET, (0...source.bytes.count).contains(Int(offset)) else {
                    return CURL_SEEKFUNC_FAIL
                }
                source.sent = Int(offset)
                return CURL_SEEKFUNC_OK
            },
            { context, _, _, _, _ in Source.from(context).uploads.hasToStop ? 1 : 0 },
            { _, size, count, _ in size * count },
            Unmanaged.passUnretained(source).toOpaque())
    }
}
