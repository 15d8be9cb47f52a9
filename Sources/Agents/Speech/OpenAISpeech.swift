// Speech synthesis behind any server that speaks OpenAI's `POST /audio/speech`: one request per
// clause, the sound passed on while it arrives. SpeechReply turns the bytes into samples and Opus
// packets.
//
// Source: OpenAI API reference, "Create speech".

import Codec
import Session

/// The formats that a service can be asked for.
public enum SpeechServiceFormat: String, CaseIterable, Sendable {
    /// 16-bit samples, mono, at 24 kHz, without a header. A WAV file is accepted too.
    case pcm
    /// Opus in Ogg (RFC 7845). Clients of Opus get its packets without transcoding.
    case opus
}

/// Speaks through `POST {baseURL}/audio/speech`.
public struct OpenAISpeech: SpeechSynthesizer {
    /// Most bytes of one answer. 64 MiB: 20 minutes of samples.
    static let maxReplyBytes = 64 << 20
    /// Bytes of the functions that wait for an answer.
    private static let taskBytes = 3_500

    private static let path = "/audio/speech"

    private let service: UpstreamService
    private let model: String
    private let voice: String?
    private let format: SpeechServiceFormat

    /// Creates a client for one service.
    /// - Parameters:
    ///   - model: the model's name at the service.
    ///   - voice: the voice of all sessions; nil passes on the client's choice.
    ///   - format: of the answer. Samples by default, which every service offers.
    public init(
        service: UpstreamService, model: String, voice: String? = nil,
        format: SpeechServiceFormat = .pcm
    ) {
        self.service = service
        self.model = model
        self.voice = voice
        self.format = format
    }

    /// Looks at the list of models.
    public func checkSynthesizer(on host: any AgentHost) async {
        await service.check(model: nil, on: host)
    }

    /// Speaks a clause. Markdown's marks and pictures are removed, and text without a letter or digit
    /// makes no sound. Numbers are left to the service, which knows its language.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer is not in the format.
    public func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        let text = SpokenMarkdown.plain(request.text)
        guard text.contains(where: { $0.isLetter || $0.isNumber }) else { return }
        let body = body(text, request)
        host.charge(Self.taskBytes)
        defer { host.charge(-Self.taskBytes) }
        try await service.retries.perform(on: host) { attempt in
            let response = try await service.post(
                body, "application/json", to: Self.path,
                accepting: format == .pcm ? "audio/pcm, */*" : "audio/ogg, */*", on: host, attempt)
            var evidence = ServiceEvidence(url: service.url(of: Self.path))
            evidence.status = response.status
            evidence.contentType = response.contentType
            attempt.handleRefusal(evidence)
            var reply = try SpeechReply(format: format, contentType: response.contentType)
            var received = 0
            while let chunk = try await response.nextChunk() {
                received += chunk.count
                guard received <= Self.maxReplyBytes else { throw SpeechReply.tooLarge }
                for speech in try reply.append(chunk) {
                    attempt.handleDelivery()
                    try await emit(speech)
                }
            }
            try reply.finish()
        } failing: { error, attempt in
            service.report(error, of: Self.path, attempt, on: host)
        }
    }

    private func body(_ text: String, _ request: SpeechRequest) -> [UInt8] {
        encodedObject { json in
            json.member("model", model)
            json.member("input", text)
            json.member("voice", voice ?? request.voice)
            json.member("response_format", format.rawValue)
            if request.speed != 1 { json.member("speed", number: request.speed) }
        }
    }
}
