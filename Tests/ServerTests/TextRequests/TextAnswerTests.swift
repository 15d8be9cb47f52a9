// The bytes of an answer to a text request, without a connection: what is sent at once, with each
// piece and at the end, and when an answer is overdue.

import Codec
import Session
import Testing

@testable import Server

@Suite struct TextAnswerTests {
    private static let heading = ChatCompletionWriter.Heading(
        id: "chatcmpl-1", created: 0, model: "m")
    private static let streamed = TextAnswer.Style.chunks(
        ChatCompletionWriter(heading, includesUsage: false))
    private static let whole = TextAnswer.Style.whole(heading)
    private static let uiMessages = TextAnswer.Style.uiMessages(
        UIMessageStreamWriter(messageID: "msg_1"))
    private static let end = ReplyPart.finished(.stop, ResponseUsage())

    private func answer(
        _ style: TextAnswer.Style, version: String = "1.1", keepAlive: Bool = true
    ) throws -> TextAnswer {
        let text = Array("POST / HTTP/\(version)\r\nHost: a\r\n\r\n".utf8)
        var parser = HTTPRequestParser()
        let request = try #require(try text.withUnsafeBytes { try parser.parse($0) }).request
        return TextAnswer(
            log: ReplyLog(messageID: "msg_1", review: {}),
            reader: ReplyReader(
                shard: 0, token: EventToken(.connection, index: 0, generation: 1)),
            chat: nil, style: style, fields: HTTPFields(), answering: request,
            keepAlive: keepAlive, at: .milliseconds(0))
    }

    private func write(_ parts: [ReplyPart], of answer: TextAnswer) -> String {
        var bytes = ByteWriter(capacity: 1_024)
        answer.write(parts, at: .milliseconds(0), retryAfterSeconds: 7, into: &bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    private func begin(_ answer: TextAnswer) -> String {
        var bytes = ByteWriter(capacity: 1_024)
        answer.begin(into: &bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    @Test func aStreamBeginsWithItsFirstPieceAndEndsWithTheLast() throws {
        let answer = try answer(Self.streamed)
        #expect(begin(answer).isEmpty && !answer.hasSentHead)
        let first = write([.text(message: 0, "Hi")], of: answer)
        #expect(first.hasPrefix("HTTP/1.1 200 ") && first.contains("text/event-stream"))
        #expect(first.contains(#""content":"Hi""#) && !first.hasSuffix("0\r\n\r\n"))
        let last = write([Self.end], of: answer)
        #expect(!last.contains("HTTP/1.1") && last.hasSuffix("0\r\n\r\n"))
    }

    @Test func theUIMessageStreamBeginsAtOnce() throws {
        let answer = try answer(Self.uiMessages)
        #expect(begin(answer).contains("msg_1") && answer.hasSentHead)
        #expect(!write([.text(message: 0, "Hi")], of: answer).contains("HTTP/1.1"))
    }

    @Test func aWholeReplyIsOneObject() throws {
        let answer = try answer(Self.whole)
        #expect(answer.needsAll)
        let text = write([.text(message: 0, "Hi"), Self.end], of: answer)
        #expect(text.contains("Content-Type: application/json") && text.contains(#""Hi""#))
        #expect(answer.hasSentHead)
    }

    /// The code of a failure before the first piece, whether the request is the cause, and the
    /// status.
    @Test(arguments: [
        ("model_not_found", false, 404), ("agent_unavailable", false, 503),
        ("server_overloaded", false, 503), ("upstream_error", false, 502),
        ("reply_stopped", false, 500), ("invalid_value", true, 400),
    ])
    func aFailureBeforeTheFirstPieceIsTheStatus(
        code: String, isRequestError: Bool, status: Int
    ) throws {
        for style in [Self.streamed, Self.whole] {
            let failure = ReplyPart.failed(
                code: code, message: "No.", isRequestError: isRequestError)
            let text = write([failure], of: try answer(style))
            #expect(text.hasPrefix("HTTP/1.1 \(status) ") && text.contains(code))
            #expect(text.contains("Retry-After: 7") == (status == 503))
        }
    }

    @Test func aFailureAfterTheFirstPieceIsPartOfTheStream() throws {
        let answer = try answer(Self.streamed)
        _ = write([.text(message: 0, "Hi")], of: answer)
        let failure = ReplyPart.failed(
            code: "upstream_error", message: "No.", isRequestError: false)
        #expect(!write([failure], of: answer).contains("HTTP/1.1"))
    }

    @Test func aClientOfHTTP10GetsNoChunksAndNoSecondRequest() throws {
        let answer = try answer(Self.streamed, version: "1.0")
        #expect(!answer.keepAlive)
        #expect(!write([.text(message: 0, "Hi"), Self.end], of: answer).hasSuffix("0\r\n\r\n"))
    }

    @Test func aSilentReplyIsPingedAndAStalledReaderIsOverdue() throws {
        let (ping, patience) = (Duration.seconds(25), Duration.seconds(60))
        let answer = try answer(Self.streamed)
        #expect(answer.deadline(ping: ping, patience: patience) == .milliseconds(25_000))
        #expect(!answer.handleSilence(at: .milliseconds(25_000), patience: patience))
        #expect(answer.deadline(ping: ping, patience: patience) == .milliseconds(50_000))
        #expect(answer.noteStall(at: .milliseconds(26_000)))
        #expect(!answer.noteStall(at: .milliseconds(27_000)), "it stalls already")
        #expect(!answer.handleSilence(at: .milliseconds(85_999), patience: patience))
        #expect(answer.handleSilence(at: .milliseconds(86_000), patience: patience))
        answer.noteProgress()
        #expect(!answer.handleSilence(at: .milliseconds(90_000), patience: patience))
    }
}
