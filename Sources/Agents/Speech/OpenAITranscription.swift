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

    /// Transcribes an utterance, without partial texts.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost
    ) async throws -> String {
        try await transcribe(utterance, on: host) { _ in }
    }

    /// Transcribes an utterance.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost,
        partial: @Sendable (String) async throws -> Void
    ) async throws -> String {
        host.charge(Self.taskBytes)
        defer { host.charge(-Self.taskBytes) }
        let (body, contentType) = try await host.compute { try form(of: utterance) }
        return try await service.retries.perform(on: host) { attempt in
            let response = try await service.post(
                body, contentType, to: "/audio/transcriptions",
                accepting: streams ? "text/event-stream, application/json" : "application/json",
                on: host, attempt)
            return try await Self.text(of: response, on: host) { part in
                attempt.handleDelivery()
                try await partial(part)
            }
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

    private static func text(
        of response: any UpstreamResponse, on host: any AgentHost,
        partial: (String) async throws -> Void
    ) async throws -> String {
        var answer = TranscriptionReply()
        var received = 0
        var charged = 0
        defer { host.charge(-charged) }
        while let chunk = try await response.nextChunk() {
            received += chunk.count
            guard received <= maxReplyBytes else {
                throw AgentError.malformedReply(
                    message: "The transcription service's answer is too large.")
            }
            let parts = try answer.append(chunk)
            host.charge(answer.bufferedBytes, insteadOf: &charged)
            for part in parts { try await partial(part) }
        }
        return try answer.finish()
    }
}

/// Reads one answer: a JSON object, or events.
private struct TranscriptionReply {
    private var events = ServerSentEventsParser()
    private let parser = JSONParser()
    /// Whether the answer is a JSON object, recognised by its first character; nil before that.
    private var isObject: Bool?
    private var object: [UInt8] = []
    private var said = ""
    private var halves = SurrogateHalves()
    private var whole: String?

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
        var data: [String] = []
        do {
            try chunk.withUnsafeBytes { bytes in
                try events.append(bytes) { data.append($0.data) }
            }
        } catch {
            throw Self.unreadable
        }
        var parts: [String] = []
        for event in data {
            if let part = try handle(event: event) { parts.append(part) }
        }
        return parts
    }

    /// The answer is over; returns its whole text.
    mutating func finish() throws(AgentError) -> String {
        if isObject == true {
            guard let text = try parse(object.span.bytes)["text"]?.string else {
                throw Self.unreadable
            }
            whole = text
        }
        guard let whole else {
            throw .malformedReply(
                message: "The transcription service's answer ended before it was complete.")
        }
        return whole.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    private mutating func handle(event data: String) throws(AgentError) -> String? {
        guard data != "[DONE]", !data.isEmpty, whole == nil else { return nil }
        let event = try parse(Array(data.utf8).span.bytes)
        switch event["type"]?.string {
        case "transcript.text.delta":
            guard let delta = halves.text(of: event["delta"]), !delta.isEmpty else { return nil }
            // The partial texts must add up to the final text, which begins with a word.
            let part = said.isEmpty ? String(delta.drop(while: \.isWhitespace)) : delta
            said += part
            return part.isEmpty ? nil : part
        case "transcript.text.done":
            whole = event["text"]?.string ?? said
        case "error":
            throw .upstream(
                status: 0,
                message: "The transcription service broke off: "
                    + (ServiceErrorBody.message(of: event) ?? "it gave no reason"))
        default:
            // Some servers stream whole segments, as objects with a `text` and no `type`.
            if let text = event["text"]?.string, event["type"] == nil { whole = text }
        }
        return nil
    }

    private func parse(_ bytes: RawSpan) throws(AgentError) -> JSONValue {
        do {
            return try bytes.withUnsafeBytes { try parser.parse($0) }
        } catch {
            throw Self.unreadable
        }
    }

    private static let unreadable = AgentError.malformedReply(
        message: "The transcription service's answer cannot be read.")
}
