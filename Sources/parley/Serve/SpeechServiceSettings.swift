// The settings of transcription and speech servers, and of requests to services. ServerParts makes
// the recogniser and the synthesiser.

import Agents
import Session

/// Transcription and speech servers; without them the embedded models hear and speak.
struct SpeechServiceSettings: Sendable {
    // MARK: Transcription

    /// Base URL of a transcription server. The default is the embedded recogniser.
    var transcriptionURL: String?
    /// The key for that server, or nil where none is sent.
    var transcriptionKey: String?
    /// The model to ask that server for.
    var transcriptionModel = "whisper-1"
    /// Whether that server is asked to send the text while it makes it.
    var streamsTranscription = false

    private static let transcription: [Setting<Self>] = [
        .url(
            "stt-url", \.transcriptionURL,
            """
            Base URL of a server that has OpenAI's /audio/transcriptions. Without it the \
            embedded recogniser is used.
            """),
        .serviceKey(
            "stt-key", \.transcriptionKey,
            "Key that is sent to that server as a bearer token."),
        .text("stt-model", \.transcriptionModel, "a name", "Model to ask that server for."),
        .toggle(
            "stt-stream", \.streamsTranscription,
            """
            Whether that server is asked to send the text while it makes it (stream=true). \
            Not all servers know the field.
            """),
    ]

    // MARK: Speech

    /// Base URL of a speech server. The default is the embedded synthesiser.
    var speechURL: String?
    /// The key for that server, or nil where none is sent.
    var speechKey: String?
    /// The model to ask that server for.
    var speechModel = "tts-1"
    /// The voice to ask that server for. The default is the one that the client names.
    var speechVoice: String?
    /// The format that is asked for.
    var speechFormat = SpeechServiceFormat.pcm

    private static let speech: [Setting<Self>] = [
        .url(
            "tts-url", \.speechURL,
            """
            Base URL of a server that has OpenAI's /audio/speech. Without it the embedded \
            synthesiser is used.
            """),
        .serviceKey(
            "tts-key", \.speechKey, "Key that is sent to that server as a bearer token."),
        .text("tts-model", \.speechModel, "a name", "Model to ask that server for."),
        .optionalText(
            "tts-voice", \.speechVoice, "a name",
            "Voice to ask that server for. Without it, the voice that the client names."),
        .choice(
            "tts-format", \.speechFormat,
            """
            What that server is asked to answer in: samples at 24 kHz (pcm), or Opus in Ogg \
            (opus), which is passed on to clients of Opus without transcoding. Every server \
            has pcm.
            """),
    ]

    // MARK: Requests

    /// Silence of a speech service after which its request fails. 10 s.
    var timeout = Duration.seconds(10)
    /// Time for a whole answer of a speech service. 60 s.
    var totalTimeout = Duration.seconds(60)

    private static let patience: [Setting<Self>] = [
        .milliseconds(
            "service-timeout-ms", \.timeout, 100...600_000,
            """
            Silence of a transcription or speech server, before its answer and within it, \
            after which the request fails. A language model has 60 s.
            """),
        .milliseconds(
            "service-total-timeout-ms", \.totalTimeout, 100...3_600_000,
            "Time for a whole answer of a transcription or speech server."),
    ]

    /// Every setting of speech services.
    static let settings = SettingGroup(.services, transcription + speech + patience)
}

/// How requests to any service are repeated: language models, transcription and speech.
struct ServiceRetrySettings: Sendable {
    /// Retries of one request. 2.
    var retries = 2
    /// Retries of all requests to one service, per hundred. 10.
    var percent = 10

    /// The settings that change these.
    static let settings = SettingGroup<Self>(.services, all)

    private static let all: [Setting<Self>] = [
        .integer(
            "service-retries", \.retries, 0...10, unit: "retries",
            """
            How often a request is repeated that failed before anything of its answer was \
            used: after 100 ms, and then twice as long each time, with a random part.
            """),
        .integer(
            "service-retry-percent", \.percent, 0...100, unit: "percent",
            """
            Retries per hundred requests to one server, beyond ten at once. An outage is \
            then not met with more requests than before.
            """),
    ]
}
