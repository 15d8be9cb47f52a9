// The settings of language models elsewhere: which ones answer, and how long they may take. One
// provider is a ModelProviderSetting; ServerParts+Models makes the models.

import Agents
import Session

/// Which demo agent answers where no model is configured.
enum DemoAgentKind: String, CaseIterable, Sendable {
    /// It repeats what it hears.
    case echo
    /// It explains Parley, and looks up facts about the session.
    case guide
}

/// The language model that answers by default, and providers of others by their names.
struct LanguageModelSettings: Sendable {
    // MARK: The default model

    /// Base URL of its server. Without one, the built-in demo agent answers.
    var url: String?
    /// The protocol of that server.
    var kind = ModelServiceKind.chat
    /// The key for that server, or nil where none is sent.
    var key: String?
    /// The model to ask that server for. The default is the one that the client names.
    var name: String?
    /// The parameter of requests to that server that limits an answer's tokens.
    var tokenLimit = TokenLimitParameter.learnt
    /// Whether requests to that server ask for the count of tokens.
    var streamOptions = StreamOptionsUse.learnt
    /// Whether its answers begin within a thought.
    var thinksFirst = false
    /// Whether that model is given what users say as audio.
    var hearsAudio = false
    /// Whether that model is given the images that users send.
    var seesImages = false
    /// Whether requests to that server name the caller and the turn in their bodies.
    var namesUser = false
    /// Whether that server keeps the conversation.
    var keepsState = false
    /// Requests to that server at a time; 0: no limit, as servers of models queue themselves.
    var concurrency = 0
    /// Requests that may wait for that server.
    var maxWaiting = RequestQueue.defaultMaxWaiting
    /// The provider that takes over where that server fails, or nil.
    var fallback: String?

    /// The values of a limit of requests at a time. 0 means that there is none.
    static let concurrencies = 0...100_000
    /// How many requests may wait.
    static let queues = 0...10_000

    private static let standard: [Setting<Self>] = [
        .optionalText(
            "llm-url", \.url,
            "a URL that begins with http:// or https://, or redis:// or rediss:// for redis-stream",
            """
            Base URL of an OpenAI-compatible chat-completions server, for example \
            http://127.0.0.1:8000/v1. Without it, and without providers, the built-in demo \
            agent answers. The flag may be shortened to --llm.
            """
        ) { url in ModelServiceKind.allCases.contains { $0.isAddress(url) } },
        .choice(
            "llm-kind", \.kind,
            "What that server speaks: \(ModelServiceKind.titles)."),
        .serviceKey(
            "llm-key", \.key,
            "Key that is sent to that server, as a bearer token or x-api-key; the password of Redis."
        ),
        .optionalText(
            "model", \.name, "a name",
            "Model to ask that server for. Without it, the model that the client names."),
        .choice(
            "llm-token-limit", \.tokenLimit,
            """
            The parameter of requests to that server that limits an answer's tokens (chat only). \
            With auto it is max_tokens, and max_completion_tokens once the server has refused \
            that, as OpenAI's models that reason do.
            """),
        .choice(
            "llm-stream-options", \.streamOptions,
            """
            Whether requests to that server have stream_options, which ask for the count of tokens \
            (chat only). With auto they have it until the server has refused it. With never, a server \
            that fails on it in other ways works, and turns have no count of tokens.
            """),
        .toggle(
            "llm-thinks-first", \.thinksFirst,
            """
            Whether that model's answers begin within a thought, because the template of its prompt has \
            the opening tag: words up to the closing tag are then left out (chat only). A server that \
            sends thoughts apart, as reasoning_content, needs no such option.
            """),
        .toggle(
            "llm-audio", \.hearsAudio,
            """
            Whether that model takes audio. The user's turns are then sent to it as audio \
            (input_audio, WAV), and recognised only where a client wants to see their words. \
            Chat only.
            """),
        .toggle(
            "llm-vision", \.seesImages,
            """
            Whether that model takes images. Images of users are refused otherwise, because a \
            server without vision fails every response after one.
            """),
        .toggle(
            "llm-send-user", \.namesUser,
            """
            Whether requests to that server have the caller as user, and session and turn as \
            metadata, in their bodies (chat, responses). The header fields of a turn are sent \
            to every server.
            """),
        .toggle(
            "llm-keep-state", \.keepsState,
            """
            Whether that server keeps the conversation (responses only). Requests then go on from \
            its earlier answers by previous_response_id and have only what is new. Services that \
            store nothing refuse that.
            """),
        .integer(
            "llm-concurrency", \.concurrency, concurrencies, unit: "requests",
            """
            Requests to that server at a time, over all shards; 0 is no limit. The others wait, \
            and callers take turns.
            """),
        .integer(
            "llm-queue", \.maxWaiting, queues, unit: "requests",
            """
            Requests that may wait for that server. More of them, and those that have waited for \
            llm-first-token-timeout-ms, go to the fallback or fail with rate_limit_exceeded. The \
            last of 64 waits for 8 s where each of 16 at a time takes 2 s.
            """),
        .optionalText(
            "llm-fallback", \.fallback, "the name of a provider",
            """
            Provider that takes over where that server fails before its first word, or has too \
            many requests.
            """),
    ]

    // MARK: Without a model

    /// Which demo agent answers where there is no model.
    var demoAgent = DemoAgentKind.echo
    /// Where a model of this machine may run, for the page to say so, or nil.
    var localModelURL: String? = "http://127.0.0.1:8000/v1"

    private static let demo: [Setting<Self>] = [
        .choice(
            "demo-agent", \.demoAgent,
            """
            The demo agent that answers without a model: echo repeats what it hears, guide explains \
            Parley, looks up facts about the session with a tool, counts and tells the time.
            """),
        .optionalText(
            "local-model-url", \.localModelURL, "a URL that begins with http:// or https://",
            """
            Base URL of a model of this machine, as `make brain` serves it. The page, opened on \
            this machine, says whether it runs and how to use it.
            """
        ) { ModelServiceKind.chat.isAddress($0) },
    ]

    // MARK: Providers

    /// Servers of models by their names.
    var providers: [ModelProviderSetting] = []

    private static let others: [Setting<Self>] = [
        .records(
            "providers", \.providers, of: "providers with a name, a url and other fields",
            """
            Servers of models by their names. Each has a name and a url, and may have: kind, \
            as llm-kind; models, the names that it answers to (each exact, or a beginning and \
            *); key-env, the environment variable of its key; model, vision, audio and \
            max-tokens, as the llm- options; and fallback, the provider that takes over where \
            it fails before its first word; send-user, as llm-send-user; and audience, its \
            name in signatures (its url); keep-state, concurrency, queue, token-limit, \
            stream-options and thinks-first, as the llm- options. The first provider that matches a model answers; \
            llm-url answers to all other names. A redis-stream also may have stream \
            (parley:jobs), group (workers), lease-ms (5000), pickup-ms (10000), attempts (3) and \
            max-jobs (1000). In a file this is a sequence of mappings; as a \
            flag "name=a url=https://h/v1 models=x-*|y,name=b url=https://g/v1".
            """)
    ]

    // MARK: Signatures

    /// Whether requests to models are signed.
    var signsRequests = false
    /// PEM file of the keys that sign. Without one, the server makes its own.
    var signingKeyFile: String?

    private static let signatures: [Setting<Self>] = [
        .toggle(
            "sign-requests", \.signsRequests,
            """
            Whether requests to models are signed, with a JWT (ES256) in X-Parley-Signature. \
            Agents check it with the keys at /.well-known/jwks.json.
            """),
        .optionalText(
            "signing-key-file", \.signingKeyFile, "a path",
            """
            PEM file of P-256 keys for sign-requests: the first signs, and all are published. \
            Servers behind one balancer share it. SIGHUP reads it again. Without it the server \
            makes keys, and replaces them every day.
            """),
    ]

    // MARK: Time

    /// Tokens of one answer where the session sets no limit and the server wants one. 4,096.
    var maxTokens = ModelService.defaultMaxTokens
    /// Time until a model's first word. 60 s, the same as the silence that is allowed later.
    var firstTokenTimeout = Duration.seconds(60)
    /// Time for a model's whole answer. 10 min: 4,096 tokens of a model on a CPU.
    var totalTimeout = Duration.seconds(600)
    /// Failures of a provider in a row before it is paused. 3: two may be chance.
    var failuresBeforePause = 3
    /// How long a provider is paused. 30 s: about a restart of a model server.
    var pause = Duration.seconds(30)

    private static let patience: [Setting<Self>] = [
        .integer(
            "llm-max-tokens", \.maxTokens, 1...1_000_000, unit: "tokens",
            """
            Limit of an answer where the session has none, for servers that want one \
            (anthropic).
            """),
        .milliseconds(
            "llm-first-token-timeout-ms", \.firstTokenTimeout, 100...3_600_000,
            """
            Time until a language model's first word, retries included. After it the \
            fallback is asked, or the response fails. A model on a CPU reads a long \
            conversation for tens of seconds.
            """),
        .milliseconds(
            "llm-total-timeout-ms", \.totalTimeout, 100...86_400_000,
            "Time for a language model's whole answer. Silence within it may last 60 s."),
        .integer(
            "llm-failures-before-pause", \.failuresBeforePause, 1...1_000_000,
            unit: "failures",
            """
            Failures of a provider in a row after which it is paused, where it has a fallback.
            """),
        .milliseconds(
            "llm-pause-ms", \.pause, 0...86_400_000,
            """
            How long a provider is paused. Then one turn tries it, and a success ends the \
            pause.
            """),
    ]

    /// Every setting of language models.
    static let settings = SettingGroup(.services, standard + demo + others + signatures + patience)
}
