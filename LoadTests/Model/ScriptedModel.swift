// The scripted model server: OpenAI's chat completions as server-sent events, and the two speech
// services, from a script instead of a model. It has one thread, one epoll and one timer for each
// stream, so that it takes little processor time from the server under test. A delta takes about 5
// µs, nearly all in the kernel.
//
// Invariant: a stream has a timer exactly while its answer waits for the next delta's time. While
// its socket is not writable it has none, so no deltas are made for a client that does not read.

import CLinux
import Codec

/// A model server on one port.
final class ScriptedModel {
    /// The script of the speech services.
    struct Speech {
        /// The text of every transcript.
        var transcript = "what is the weather like today"
        var transcriptMilliseconds = 50.0
        /// The speed at which a text is spoken.
        var lettersPerSecond = 15.0
    }

    /// Most seconds of sound in one answer.
    private static let longestSpeech = 60.0

    private let script: ModelScript
    private let speech: Speech
    /// 24 kHz, 16 bits, one channel: the format `pcm` of the speech services.
    private let sound: [UInt8]
    private let listener: Int32
    private let epoll: Int32
    private let wheel = TimerWheel(now: monotonicNanoseconds())
    private var streams: [ModelStream?] = []
    private let parser = JSONParser()
    private var answers = 0
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
    /// Reused buffers for one event and for one write.
    private var event = ByteWriter(capacity: 1_024)
    private var output = ByteWriter(capacity: 4_096)

    /// Listens on the port.
    /// - Throws: `LoadFailure` when the port is taken.
    init(port: UInt16, script: ModelScript, speech: Speech) throws(LoadFailure) {
        self.script = script
        self.speech = speech
        sound = Self.tone(seconds: Self.longestSpeech)
        listener = try listenOnLoopback(port)
        epoll = epoll_create1(0)
        guard parley_epoll_control(epoll, EPOLL_CTL_ADD, listener, EPOLLIN.rawValue, 0) == 0 else {
            throw .system("epoll_ctl")
        }
    }

    deinit {
        buffer.deallocate()
        close(listener)
        close(epoll)
    }

    /// A quiet tone, which is still loud enough to be taken for speech by its level.
    private static func tone(seconds: Double) -> [UInt8] {
        let period = 120
        let wave = (0..<period).map { index -> Int16 in
            let phase = Double(index) / Double(period)
            // Two parabolas approximate a sine.
            let half = phase < 0.5 ? phase : phase - 0.5
            let value = 16 * half * (0.5 - half) * 9_000
            return Int16(phase < 0.5 ? value : -value)
        }
        return (0..<Int(seconds * 24_000)).flatMap { index -> [UInt8] in
            let sample = UInt16(bitPattern: wave[index % period])
            return [UInt8(truncatingIfNeeded: sample), UInt8(truncatingIfNeeded: sample >> 8)]
        }
    }

    /// Serves until the process ends.
    /// - Throws: `LoadFailure` when the kernel refuses to wait.
    func run() throws(LoadFailure) -> Never {
        var events = [epoll_event](repeating: epoll_event(), count: 512)
        while true {
            let count = try waitForEvents(epoll, &events, until: wheel.nextCheck)
            for event in events.prefix(count) {
                let token = Int(event.data.u64)
                token == 0 ? accept() : handle(token, event.events)
            }
            for token in wheel.expire(at: monotonicNanoseconds()) { speak(token) }
        }
    }

    // MARK: Connections

    private func accept() {
        while true {
            let descriptor = parley_accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            var yes: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)
            let token = Int(descriptor)
            while streams.count <= token { streams.append(nil) }
            streams[token] = ModelStream(descriptor)
            _ = parley_epoll_control(
                epoll, EPOLL_CTL_ADD, descriptor, EPOLLIN.rawValue, UInt64(token))
        }
    }

    private func drop(_ token: Int) {
        wheel.cancel(token)
        streams[token] = nil
    }

    private func handle(_ token: Int, _ events: UInt32) {
        guard let stream = streams[token] else { return }
        if events & EPOLLOUT.rawValue != 0 {
            guard stream.flush(sound) else { return drop(token) }
            if !stream.isStalled {
                watch(stream, forRoom: false)
                if stream.answer != nil { wheel.set(token, at: 0) }
            }
        }
        guard events & ~EPOLLOUT.rawValue != 0 else { return }
        let count = recv(
            stream.descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
        guard count > 0 else {
            if count < 0, parley_errno() == EAGAIN { return }
            return drop(token)
        }
        take(UnsafeRawBufferPointer(rebasing: buffer[..<count]), from: stream, token)
    }

    private func take(_ bytes: UnsafeRawBufferPointer, from stream: ModelStream, _ token: Int) {
        do throws(HTTPError) {
            // A request that arrives before the end of an answer waits for that end.
            if let request = try stream.nextRequest(adding: bytes), stream.answer == nil {
                begin(request, on: stream, token)
            }
        } catch {
            drop(token)
        }
    }

    private func watch(_ stream: ModelStream, forRoom: Bool) {
        let events = EPOLLIN.rawValue | (forRoom ? EPOLLOUT.rawValue : 0)
        _ = parley_epoll_control(
            epoll, EPOLL_CTL_MOD, stream.descriptor, events, UInt64(stream.descriptor))
    }

    // MARK: Answers

    private func begin(_ request: HTTPRequest, on stream: ModelStream, _ token: Int) {
        let now = monotonicNanoseconds()
        switch (request.method, request.path) {
        case (.post, "/v1/chat/completions"):
            guard let chat = ModelRequest(request.body, with: parser) else {
                return respond("{\"error\":{\"message\":\"no messages\"}}", status: 400, token)
            }
            answers += 1
            let answer = ModelStream.Answer(
                script: script.overridden(by: chat.lastUserMessage), request: chat, begin: now,
                number: answers)
            stream.answer = answer
            wheel.set(token, at: now + answer.script.offset(of: 0))
        case (.post, "/v1/audio/transcriptions"):
            var chat = ModelRequest()
            chat.lastUserMessage = speech.transcript
            var script = script
            (script.tokens, script.firstTokenMilliseconds) = (0, speech.transcriptMilliseconds)
            stream.answer = ModelStream.Answer(
                script: script, request: chat, begin: now, number: 0)
            wheel.set(token, at: now + script.offset(of: 0))
        case (.post, "/v1/audio/speech"): sendSpeech(request.body, stream, token)
        case (.get, "/v1/models"):
            respond("{\"object\":\"list\",\"data\":[{\"id\":\"scripted\"}]}", token)
        default: respond("{\"error\":{\"message\":\"no such path\"}}", status: 404, token)
        }
    }

    /// Sends all deltas that are due, when a stream's timer has fired.
    private func speak(_ token: Int) {
        guard let stream = streams[token], var answer = stream.answer, !stream.isStalled else {
            return
        }
        if answer.number == 0 {
            stream.answer = nil
            return respond("{\"text\":\"\(speech.transcript)\"}", token)
        }
        guard answer.request.streams else { return speakAtOnce(answer, stream, token) }
        let now = monotonicNanoseconds()
        output.removeAll()
        if answer.sent == 0 { writeHead(of: answer) }
        let stamp = monotonicNanoseconds()
        while answer.sent < answer.script.tokens {
            let due = answer.begin + answer.script.offset(of: answer.sent)
            guard due <= now else { break }
            // A delta that waited for a client counts from the time at which it was due.
            let sendTime = answer.wasStalled ? due : stamp
            writeDelta(of: answer, stamp: answer.script.isPlain ? nil : sendTime)
            answer.sent += 1
        }
        answer.wasStalled = false
        let isOver = answer.sent >= answer.script.tokens
        if isOver { writeEnd(of: answer) }
        stream.answer = isOver ? nil : answer
        guard output.withUnsafeBytes({ stream.send($0) }) else { return drop(token) }
        if stream.isStalled {
            stream.answer?.wasStalled = true
            watch(stream, forRoom: true)
        } else if !isOver {
            wheel.set(token, at: answer.begin + answer.script.offset(of: answer.sent))
        } else {
            take(UnsafeRawBufferPointer(start: nil, count: 0), from: stream, token)
        }
    }

    /// Sends the whole answer as one object, for requests that do not stream.
    private func speakAtOnce(_ answer: ModelStream.Answer, _ stream: ModelStream, _ token: Int) {
        let end = answer.begin + answer.script.offset(of: max(0, answer.script.tokens - 1))
        guard monotonicNanoseconds() >= end else { return wheel.set(token, at: end) }
        stream.answer = nil
        let stamp = "\(monotonicNanoseconds())"
        let text = (0..<answer.script.tokens).map {
            answer.script.isPlain ? ModelScript.word($0) : " " + stamp
        }.joined()
        let count = answer.script.tokens
        respond(
            """
            {"id":"chatcmpl-\(answer.number)","object":"chat.completion","created":1,\
            "model":"scripted","choices":[{"index":0,"message":{"role":"assistant","content":\
            "\(text)"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,\
            "completion_tokens":\(count),"total_tokens":\(count + 1)}}
            """, token)
    }

    private func respond(_ json: String, status: Int = 200, _ token: Int) {
        guard let stream = streams[token] else { return }
        output.removeAll()
        output.append("HTTP/1.1 \(status) \(status == 200 ? "OK" : "Refused")\r\n")
        output.append("Content-Type: application/json\r\nContent-Length: ")
        output.append("\(json.utf8.count)\r\n\r\n\(json)")
        guard output.withUnsafeBytes({ stream.send($0) }) else { return drop(token) }
        if stream.isStalled { watch(stream, forRoom: true) }
    }

    private func sendSpeech(_ body: [UInt8], _ stream: ModelStream, _ token: Int) {
        let letters = (try? parser.parse(body))?["input"]?.string?.count ?? 1
        let seconds = min(Double(letters) / speech.lettersPerSecond, Self.longestSpeech)
        // A whole number of samples, which are two bytes each.
        let end = min(max(1, Int(seconds * 24_000)) * 2, sound.count)
        output.removeAll()
        output.append("HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: ")
        output.append("\(end)\r\n\r\n")
        stream.speech = 0..<end
        let isAlive = output.withUnsafeBytes { stream.send($0) } && stream.flush(sound)
        guard isAlive else { return drop(token) }
        if stream.isStalled { watch(stream, forRoom: true) }
    }

    // MARK: Events

    private func writeHead(of answer: ModelStream.Answer) {
        output.append(
            """
            HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
            Transfer-Encoding: chunked\r\n\r\n
            """)
        writeEvent(of: answer) {
            $0.append(#"{"role":"assistant","content":""},"finish_reason":null}]}"#)
        }
    }

    private func writeDelta(of answer: ModelStream.Answer, stamp: Int64?) {
        writeEvent(of: answer) {
            $0.append(#"{"content":""#)
            if let stamp {
                $0.append(" \(stamp)")
            } else {
                $0.append(ModelScript.word(answer.sent))
            }
            $0.append(#""},"finish_reason":null}]}"#)
        }
    }

    private func writeEnd(of answer: ModelStream.Answer) {
        writeEvent(of: answer) { $0.append(#"{},"finish_reason":"stop"}]}"#) }
        if answer.request.wantsUsage {
            let count = answer.script.tokens
            event.removeAll()
            event.append(#"data: {"id":"chatcmpl-"#)
            event.append(
                """
                \(answer.number)","object":"chat.completion.chunk","created":1,"model":"scripted",\
                "choices":[],"usage":{"prompt_tokens":1,"completion_tokens":\(count),\
                "total_tokens":\(count + 1)}}\n\n
                """)
            writeChunk()
        }
        event.removeAll()
        event.append("data: [DONE]\n\n")
        writeChunk()
        output.append(HTTPResponseHead.lastChunk)
    }

    private func writeEvent(
        of answer: ModelStream.Answer, _ choice: (inout ByteWriter) -> Void
    ) {
        event.removeAll()
        event.append(#"data: {"id":"chatcmpl-"#)
        event.append("\(answer.number)")
        event.append(
            #"""
            ","object":"chat.completion.chunk","created":1,"model":"scripted",\#
            "choices":[{"index":0,"delta":
            """#)
        choice(&event)
        event.append("\n\n")
        writeChunk()
    }

    private func writeChunk() {
        event.withUnsafeBytes { HTTPResponseHead.writeChunk($0, into: &output) }
    }
}
