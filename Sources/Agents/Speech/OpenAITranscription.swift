// Speech recognition behind any server that speaks OpenAI's `POST /audio/transcriptions`: one
// multipart request per utterance, with the audio as WAV. The answer is JSON or, when streamed,
// events.
//
// Source: OpenAI API reference, "Create transcription" and its streaming events;
// multipart/form-data is RFC 7578.

import Codec
import Session

/// Recognises speech through `POST {baseURL}/audio/transcriptions`.
public struct OpenAITranscription: SpeechRecognizer {
    /// Bytes of the functions that wait for an answer.
    private static let taskBytes = 3_700

    /// Most bytes of one answer. 1 MiB: the words of hours of speech.
    static let maxReplyBytes = 1 << 20

    /// Time for the end of the transfer after the terminal event, so that its connection serves the
    /// next request. 1 s.
    private static let endingTime = Duration.seconds(1)

    private static let path = "/audio/transcriptions"

    private let service: UpstreamService
    private let model: String
    private let streams: Bool

    /// Creates a client for one service.
    /// - Parameters:
    ///   - model: the model's name at the service.
    ///   - streams: whether the text is requested in pieces (`stream`). Most services that do not
    ///     know the field ignore it.
    public init(service: UpstreamService, model: String, streams: Bool = false) {
        self.service = service
        self.model = model
        self.streams = streams
    }

    /// Looks at the list of models.
    public func checkRecognizer(on host: any AgentHost) async {
        await service.check(model: nil, on: host)
    }

    /// Transcribes an utterance, without partial texts.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost
    ) async throws -> Transcript {
        try await transcribe(utterance, on: host) { _ in }
    }

    /// Transcribes an utterance.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost,
        partial: @Sendable (String) async throws -> Void
    ) async throws -> Transcript {
        host.charge(Self.taskBytes)
        defer { host.charge(-Self.taskBytes) }
        let (body, contentType) = try await host.compute { try form(of: utterance) }
        return try await service.retries.perform(on: host) { attempt in
            let response = try await service.post(
                body, contentType, to: Self.path,
                accepting: streams ? "text/event-stream, application/json" : "application/json",
                on: host, attempt)
            return try await transcript(of: response, attempt, on: host) { part in
                attempt.handleDelivery()
                try await partial(part)
            }
        } failing: { error, attempt in
            service.report(error, of: Self.path, attempt, on: host)
        }
    }

    /// The body of a request and its content type. The audio is decoded and copied here: it is for
    /// a worker thread.
    private func form(
        of utterance: Utterance
    ) throws -> (body: [UInt8], contentType: String) {
        var form = MultipartForm()
        form.append("model", model)
        form.append("response_format", "json")
        if let language = utterance.language { form.append("language", language) }
        if let prompt = utterance.prompt { form.append("prompt", prompt) }
        if streams { form.append("stream", "true") }
        let wav = WAVFile(rate: .hz16000, samples: try utterance.samples()).encoded()
        form.append("file", fileName: "turn.wav", contentType: "audio/wav", wav)
        return (form.finish(), form.contentType)
    }

    private func transcript(
        of response: any UpstreamResponse, _ attempt: RequestAttempt, on host: any AgentHost,
        partial: (String) async throws -> Void
    ) async throws -> Transcript {
        var evidence = ServiceEvidence(url: service.url(of: Self.path))
        evidence.status = response.status
        evidence.contentType = response.contentType
        do {
            return try await Self.read(response, on: host, &evidence, partial: partial)
        } catch AgentError.malformedReply(let message, let detail) {
            attempt.handleRefusal(evidence)
            throw AgentError.malformedReply(
                message: evidence.foreignKind.map {
                    "The transcription service's answer is \($0.rawValue), not one of its API."
                } ?? message, detail: detail)
        }
    }

    private static func read(
        _ response: any UpstreamResponse, on host: any AgentHost,
        _ evidence: inout ServiceEvidence, partial: (String) async throws -> Void
    ) async throws -> Transcript {
        var answer = TranscriptionReply()
        var received = 0
        var charged = 0
        defer { host.charge(-charged) }
        while !answer.isOver, let chunk = try await response.nextChunk() {
            received += chunk.count
            guard received <= maxReplyBytes else {
                throw AgentError.malformedReply(
                    message: "The transcription service's answer is too large.")
            }
            if evidence.beginning.isEmpty {
                evidence.beginning = Array(chunk.prefix(ServiceEvidence.maxBeginningBytes))
            }
            let parts = try answer.append(chunk)
            host.charge(answer.bufferedBytes, insteadOf: &charged)
            for part in parts { try await partial(part) }
        }
        if answer.isOver { response.expectEnd(within: endingTime) }
        return try answer.finish()
    }
}

/// Reads one answer: a JSON object, or events of one of three forms.
///
///     OpenAI    {"type": "transcript.text.delta", …}, at the end {"type": "transcript.text.done"}
///     vLLM      {"choices": [{"delta": {"content": …}}]}, at the end [DONE]
///     Speaches  {"text": …} for each segment, until the stream ends or [DONE] comes
private struct TranscriptionReply {
    private var events = ServerSentEventsParser()
    private let parser = JSONParser(limits: .ofAnAnswer)
    /// Whether the answer is a JSON object, recognised by its first character; nil before that.
    private var isObject: Bool?
    private var object: [UInt8] = []
    private var said = ""
    private var halves = SurrogateHalves()
    private var whole: String?
    private var language: String?
    /// Whether the text so far is whole if the stream ends.
    private var isComplete = false
    /// Whether the terminal event has come.
    private(set) var isOver = false

    /// Memory of the bytes that have arrived and could not be read yet.
    var bufferedBytes: Int { object.heapBytes + events.heldBytes }

    /// Reads the next piece of the answer; returns the text in it.
    mutating func append(_ chunk: [UInt8]) throws(AgentError) -> [String] {
        if isObject == nil {
            isObject = chunk.first { $0 > 32 }.map { $0 == UInt8(ascii: "{") }
        }
        if isObject == true {
            object += chunk
            return []
        }
        var arrived: [ServerSentEvent] = []
        do {
            try chunk.withUnsafeBytes { bytes in
                try events.append(bytes) { arrived.append($0) }
            }
        } catch {
            throw Self.unreadable
        }
        var parts: [String] = []
        for event in arrived where !isOver {
            if let part = try handle(event) { parts.append(part) }
        }
        return parts
    }

    /// The answer is over; returns its whole text, and the language where the answer has its code. A
    /// service that says "french" does not tell it.
    mutating func finish() throws(AgentError) -> Transcript {
        if isObject == true {
            let answer = try parse(object.span.bytes)
            if let error = ReportedError(in: answer) { throw Self.brokenOff(error) }
            guard let text = answer["text"]?.string else { throw Self.unreadable }
            whole = text
            language = answer["language"]?.string.flatMap { $0.utf8.count <= 3 ? $0 : nil }
        }
        guard let whole = whole ?? (isComplete ? said : nil) else {
            throw .malformedReply(
                message: "The transcription service's answer ended before it was complete.")
        }
        let words = whole.split(whereSeparator: \.isWhitespace)
        return Transcript(words.joined(separator: " "), language: language)
    }

    private mutating func handle(_ event: ServerSentEvent) throws(AgentError) -> String? {
        guard event.type != "error" else {
            throw Self.brokenOff(
                Array(event.data.utf8).withUnsafeBytes { ReportedError(event: $0) })
        }
        guard event.data != "[DONE]" else {
            // Alone it is the end of nothing.
            isOver = isComplete
            return nil
        }
        guard !event.data.isEmpty else { return nil }
        let value = try parse(Array(event.data.utf8).span.bytes)
        if let error = ReportedError(in: value) { throw Self.brokenOff(error) }
        switch value["type"]?.string {
        case "transcript.text.delta": return add(halves.text(of: value["delta"]))
        case "transcript.text.done":
            whole = value["text"]?.string ?? said
            isOver = true
        case nil:
            if let choice = value["choices"]?.elements?.first(where: { _ in true }) {
                isComplete = true
                return add(halves.text(of: choice["delta"]?["content"]))
            }
            guard let text = value["text"]?.string else { return nil }
            isComplete = true
            return add(said.isEmpty || text.first?.isWhitespace == true ? text : " " + text)
        default: break
        }
        return nil
    }

    /// Adds to the text. The partial texts must add up to the final text, which begins with a word.
    private mutating func add(_ text: String?) -> String? {
        guard let text, !text.isEmpty else { return nil }
        let part = said.isEmpty ? String(text.drop(while: \.isWhitespace)) : text
        said += part
        return part.isEmpty ? nil : part
    }

    private func parse(_ bytes: RawSpan) throws(AgentError) -> JSONValue {
        do {
            return try bytes.withUnsafeBytes { try parser.parse($0) }
        } catch {
            throw Self.unreadable
        }
    }

    private static func brokenOff(_ error: ReportedError) -> AgentError {
        .brokenOff(
            status: error.status, message: "The transcription service broke off: \(error.reason)")
    }

    private static let unreadable = AgentError.malformedReply(
        message: "The transcription service's answer cannot be read.")
}
