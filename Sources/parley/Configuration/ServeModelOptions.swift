// The options of `parley serve` for language models elsewhere: the one that answers by default, the
// providers of others by their names, and how long they may take. What an option is, is in
// ServeOption.

import Agents

extension ServeOptionTable {
    /// Which language models answer, and when they are given up.
    static let languageModel: [ServeOption] = standardModel + providers + modelPatience

    private static let standardModel: [ServeOption] = [
        url(
            "llm-url", \.modelURL,
            """
            Base URL of an OpenAI-compatible chat-completions server, for example \
            http://127.0.0.1:8000/v1. Without it, and without providers, the built-in demo agent \
            answers. The flag may be shortened to --llm.
            """),
        .choice(
            "llm-kind", \.modelKind, in: .services,
            """
            What that server speaks: OpenAI's chat completions (chat), Anthropic's Messages \
            (anthropic), or OpenAI's Responses (responses).
            """),
        .optionalText(
            "llm-key", \.modelKey, allowed: "a key", isSecret: true, in: .services,
            "Key that is sent to that server, as a bearer token or x-api-key. \(keyAdvice)"),
        .optionalText(
            "model", \.modelName, allowed: "a name", in: .services,
            "Model to ask that server for. Without it, what the client names."),
        .toggle(
            "llm-audio", \.modelHearsAudio, in: .services,
            """
            Whether that model hears: the user's turns are then sent to it as audio (input_audio, \
            WAV), and recognised only where a client wants to see their words. Chat only.
            """),
        .toggle(
            "llm-vision", \.modelSeesImages, in: .services,
            """
            Whether that model sees: images of users are then sent to it, and refused otherwise, \
            as a server without vision would fail every response after one.
            """),
        .optionalText(
            "llm-fallback", \.modelFallback, allowed: "the name of a provider", in: .services,
            "Provider that takes over where that server fails before its first word."),
        .integer(
            "max-conversation-image-bytes", \.server.session.maxConversationImageBytes,
            0...(1 << 30), unit: "bytes", in: .session,
            "What a conversation may hold beyond its text where its model sees images."),
    ]

    private static let providers: [ServeOption] = [
        ServeOption(
            name: "providers", group: .services, unit: "",
            allowed: "providers with the fields below, with commas between",
            summary: """
                Servers of models by their names. Each has a name and a url, and may have a kind \
                as above; models, the names that it answers to (each exact, or a beginning and *); \
                key-env, the environment variable of its key; model, vision, audio and max-tokens \
                as the llm- options; and fallback, the provider that takes over where it fails \
                before its first word. The first that matches answers; llm-url has all other \
                names. In a file a sequence of mappings; as a flag \
                "name=a url=https://h/v1 models=x-*|y,name=b url=https://g/v1".
                """,
            isSecret: false, isList: true, hasRecords: true,
            set: { text, settings in
                let parts = text.split(separator: ",", omittingEmptySubsequences: text.isEmpty)
                let providers = parts.compactMap { ModelProviderSetting(String($0)) }
                guard providers.count == parts.count else { return false }
                settings.providers = providers
                return true
            },
            get: { $0.providers.map(\.description).joined(separator: ",") })
    ]

    private static let modelPatience: [ServeOption] = [
        .integer(
            "llm-max-tokens", \.modelMaxTokens, 1...1_000_000, unit: "tokens", in: .services,
            """
            Limit of an answer where the session has none, for servers that want one (anthropic).
            """),
        .milliseconds(
            "llm-first-token-timeout-ms", \.firstTokenTimeout, 100...3_600_000, in: .services,
            """
            Time until a language model's first word, retries included, after which its fallback \
            is asked, or the response fails. A model on a CPU reads a long conversation for tens \
            of seconds.
            """),
        .milliseconds(
            "llm-total-timeout-ms", \.modelTotalTimeout, 100...86_400_000, in: .services,
            "Time for a language model's whole answer; it is silent for 60 s at most."),
        .integer(
            "llm-failures-before-pause", \.failuresBeforePause, 1...1_000_000, unit: "failures",
            in: .services,
            """
            Failures of a provider in a row after which it is left alone for a while, where it has \
            a fallback.
            """),
        .milliseconds(
            "llm-pause-ms", \.providerPause, 0...86_400_000, in: .services,
            "How long; then one turn tries it, and its success ends the pause."),
    ]
}
