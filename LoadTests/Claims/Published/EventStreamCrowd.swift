// Thousands of clients of server-sent events on one epoll loop. Each posts a chat completion and
// reads its stream to the end. The text of every delta is the time at which the model sent it.
//
// Bodies are read by lines, and the framing of HTTP chunks is ignored: all servers here write whole
// events, so the framing is always between lines.

import CLinux

/// Streams that begin evenly over four seconds and are read to their ends.
final class EventStreamCrowd {
    /// One stream's reading.
    private struct Stream {
        let descriptor: Int32
        /// The scheduled time of its beginning.
        let begin: Int64
        var deltas = 0
        var isOpen = true
        /// The beginning of an incomplete line.
        var rest: [UInt8] = []
    }

    private static let firstTokenMilliseconds: Int64 = 200
    private static let openingNanoseconds: Int64 = 4_000_000_000
    private static let content = Array("\"content\":".utf8)

    private let target: EchoTarget
    private let expected: Int
    private let count: Int
    private let epoll = epoll_create1(0)
    private var streams: [Stream] = []
    private var unfinished = 0
    private var delays = Samples()
    private var firsts = Samples()
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    /// Prepares the streams and opens nothing yet.
    /// - Parameter deltas: of each stream, one a second.
    init(target: EchoTarget, streams: Int, deltas: Int) {
        self.target = target
        count = streams
        expected = deltas
    }

    deinit {
        for stream in streams where stream.isOpen { close(stream.descriptor) }
        close(epoll)
    }

    /// Runs all streams to their ends.
    /// - Throws: `LoadFailure` when one is refused, breaks off, or lacks a delta.
    func run() throws(LoadFailure) -> Claim.Sample {
        let begin = monotonicNanoseconds()
        let end = begin + Self.openingNanoseconds + Int64(expected) * 1_000_000_000
        var events = [epoll_event](repeating: epoll_event(), count: 1_024)
        while streams.count < count || unfinished > 0 {
            let now = monotonicNanoseconds()
            while streams.count < count, beginning(streams.count, after: begin) <= now {
                try open(at: beginning(streams.count, after: begin))
            }
            let next =
                streams.count < count ? beginning(streams.count, after: begin) : now + 100_000_000
            let ready = try waitForEvents(epoll, &events, until: next)
            for event in events[..<ready] { try read(Int(event.data.u64)) }
            guard monotonicNanoseconds() < end + 20_000_000_000 else {
                throw LoadFailure("\(unfinished) of \(count) streams did not end in time")
            }
        }
        func at(_ samples: Samples, _ share: Double) -> Double {
            Double(samples.quantile(share) ?? 0) / 1e6
        }
        return [
            "p50": at(delays, 0.5), "p95": at(delays, 0.95), "p99": at(delays, 0.99),
            "first": at(firsts, 0.95),
        ]
    }

    private func beginning(_ index: Int, after begin: Int64) -> Int64 {
        begin + Self.openingNanoseconds * Int64(index) / Int64(count)
    }

    private func open(at begin: Int64) throws(LoadFailure) {
        let body =
            "{\"model\":\"scripted\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
            + "\"tokens=\(expected) rate=1 first=\(Self.firstTokenMilliseconds)\"}]}"
        let request =
            "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
            + "application/json\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n"
            + body
        let descriptor = try target.connect()
        let index = streams.count
        streams.append(Stream(descriptor: descriptor, begin: begin))
        unfinished += 1
        let bytes = Array(request.utf8)
        guard parley_send(descriptor, bytes, bytes.count) == bytes.count,
            parley_epoll_control(
                epoll, Int32(EPOLL_CTL_ADD), descriptor, EPOLLIN.rawValue, UInt64(index)) == 0
        else { throw .system("a stream's request") }
    }

    private func read(_ index: Int) throws(LoadFailure) {
        guard streams[index].isOpen else { return }
        let received = recv(
            streams[index].descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        guard received > 0 else {
            if received < 0, parley_errno() == EAGAIN { return }
            streams[index].isOpen = false
            unfinished -= 1
            close(streams[index].descriptor)
            guard streams[index].deltas == expected else {
                throw LoadFailure("a stream ended after \(streams[index].deltas) of \(expected)")
            }
            return
        }
        let now = monotonicNanoseconds()
        var line = streams[index].rest
        for byte in buffer[..<received] {
            guard byte == UInt8(ascii: "\n") else {
                line.append(byte)
                continue
            }
            try take(line, of: index, at: now)
            line.removeAll(keepingCapacity: true)
        }
        streams[index].rest = line
    }

    private func take(_ line: [UInt8], of index: Int, at now: Int64) throws(LoadFailure) {
        if line.starts(with: "HTTP/1.1".utf8), !line.starts(with: "HTTP/1.1 200".utf8) {
            throw LoadFailure("a stream was refused: \(String(decoding: line, as: UTF8.self))")
        }
        guard line.starts(with: "data: ".utf8),
            let content = line.firstRange(of: Self.content)?.upperBound
        else { return }
        let digits = line[content...].drop { !(0x30...0x39).contains($0) }
            .prefix { (0x30...0x39).contains($0) }
        // The first event of some servers has a role and no text.
        guard let sent = Int64(String(decoding: digits, as: UTF8.self)), sent > 0 else { return }
        delays.append(now - sent)
        if streams[index].deltas == 0 {
            let model = Self.firstTokenMilliseconds * 1_000_000
            firsts.append(now - streams[index].begin - model)
        }
        streams[index].deltas += 1
    }
}
