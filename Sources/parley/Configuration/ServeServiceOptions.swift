// The options of `parley serve` for services elsewhere: transcription, speech, and patience with
// them. Those for language models are in ServeModelOptions; what an option is, is in ServeOption.

import Agents

extension ServeOptionTable {
    static let keyAdvice = """
        Prefer the variable or the file: flags are visible to every user of the machine.
        """

    /// Where services are, and how long they may take.
    static let services: [ServeOption] = languageModel + transcription + speech + patience

    private static let transcription: [ServeOption] = [
        url(
            "stt-url", \.transcriptionURL,
            """
            Base URL of a server that has OpenAI's /audio/transcriptions. Without it the embedded \
            recogniser hears.
            """),
        .optionalText(
            "stt-key", \.transcriptionKey, allowed: "a key", isSecret: true, in: .services,
            "Key that is sent to that server as a bearer token. \(keyAdvice)"),
        .text(
            "stt-model", \.transcriptionModel, allowed: "a name", in: .services,
            "Model to ask that server for."),
        .toggle(
            "stt-stream", \.streamsTranscription, in: .services,
            """
            Whether that server is asked to send the text while it makes it (stream=true). Not all \
            servers know the field.
            """),
    ]

    private static let speech: [ServeOption] = [
        url(
            "tts-url", \.speechURL,
            """
            Base URL of a server that has OpenAI's /audio/speech. Without it the embedded \
            synthesiser speaks.
            """),
        .optionalText(
            "tts-key", \.speechKey, allowed: "a key", isSecret: true, in: .services,
            "Key that is sent to that server as a bearer token. \(keyAdvice)"),
        .text(
            "tts-model", \.speechModel, allowed: "a name", in: .services,
            "Model to ask that server for."),
        .optionalText(
            "tts-voice", \.speechVoice, allowed: "a name", in: .services,
            "Voice to ask that server for. Without it, what the client names."),
        .choice(
            "tts-format", \.speechFormat, in: .services,
            """
            What that server is asked to answer in: samples at 24 kHz, or Opus in Ogg, which \
            clients of Opus get untouched. Every server has the first.
            """),
    ]

    private static let patience: [ServeOption] = [
        .optionalText(
            "service-ca", \.server.serviceCA, allowed: "a file", in: .services,
            """
            PEM file of the authorities that the certificates of model and speech servers are \
            checked against, instead of the system's.
            """),
        .milliseconds(
            "service-timeout-ms", \.serviceTimeout, 100...600_000, in: .services,
            """
            Silence of a transcription or speech server, before its answer and within it, after \
            which it is given up. A language model has 60 s.
            """),
        .milliseconds(
            "service-total-timeout-ms", \.serviceTotalTimeout, 100...3_600_000, in: .services,
            "Time for a whole answer of a transcription or speech server."),
        .integer(
            "service-retries", \.serviceRetries, 0...10, unit: "retries", in: .services,
            """
            How often a request is made again that failed before anything of its answer was used, \
            after 100 ms and then twice as long each time, with a part left to chance.
            """),
        .integer(
            "service-retry-percent", \.serviceRetryPercent, 0...100, unit: "percent",
            in: .services,
            """
            Retries per hundred requests to one server, beyond ten at once, so that an outage is \
            not met with more requests than before.
            """),
    ]

    static func url(
        _ name: String, _ place: any ServeOption.Place<String?>, _ summary: String
    ) -> ServeOption {
        .optionalText(
            name, place, allowed: "a URL that begins with http:// or https://", in: .services,
            summary, isAllowed: { $0.hasPrefix("http://") || $0.hasPrefix("https://") })
    }
}
