// The limits of one session, and beside them the settings that change them.

import Codec

/// Limits of one session. Each bounds memory or work that a client could cause.
public struct SessionLimits: Equatable, Sendable {
    // MARK: Conversation

    /// Uncommitted audio that is kept, in seconds. 60: longer utterances are committed in pieces.
    /// A second takes as many bytes as its Opus packets had, and 8 kB otherwise.
    public var maxBufferedAudioSeconds = 60
    /// Time without audio in the middle of speech after which the speech is over. 1,000 ms: longer
    /// than the gaps of a usable connection. People mute themselves, release a button, or have a
    /// client that sends nothing in silence.
    public var audioGapMilliseconds = 1_000
    /// Turns whose words are being recognised at once. 8: more wait only when recognition cannot
    /// keep up, and each holds its audio.
    public var maxAwaitedTranscripts = 8
    /// Items in the conversation. 1,000: hours of talk.
    public var maxConversationItems = 1_000
    /// UTF-8 bytes of all items' text. 1 MiB: more than any model's context.
    public var maxConversationBytes = 1 << 20
    /// UTF-8 bytes that a conversation may hold beyond these where its model sees images, each as
    /// base64. 8 MiB: some twenty photographs of a telephone, made small as clients do.
    public var maxConversationImageBytes = 8 << 20
    /// The model's context in tokens: instructions, tools, conversation and reply. 128,000, as most
    /// of today's models have. The size of a conversation is estimated (`TokenEstimate`).
    public var modelContextTokens = 128_000
    /// Coded audio of the user that is kept for clients that retrieve an item, in bytes. Older audio
    /// is dropped, its transcript stays. 0: none. 64 KiB: the newest 25 s as Opus, 8 s otherwise.
    public var maxKeptAudioBytes = 64 << 10
    /// Audio of the newest turn, and of earlier turns without a transcript, that is sent to a model
    /// that hears audio, in seconds. Older audio is dropped. 60: 0.5 MB of a session that has it,
    /// less where it was Opus.
    public var maxHeardAudioSeconds = 60

    private static let conversation: [Setting<Self>] = [
        .integer(
            "max-buffered-audio-seconds", \.maxBufferedAudioSeconds, 1...3_600,
            unit: "seconds",
            "Uncommitted audio that is kept; longer utterances are committed in pieces."),
        .integer(
            "audio-gap-ms", \.audioGapMilliseconds, 100...60_000, unit: "milliseconds",
            """
            How long no audio may come in the middle of speech before the speech is over: of a client \
            that is muted, or sends nothing in silence.
            """),
        .integer(
            "max-awaited-transcripts", \.maxAwaitedTranscripts, 1...1_000, unit: "turns",
            "Turns whose words are being recognised at once."),
        .integer(
            "max-conversation-items", \.maxConversationItems, 2...1_000_000, unit: "items",
            "Items in a conversation."),
        .integer(
            "max-conversation-bytes", \.maxConversationBytes, 1_024...(1 << 30),
            unit: "bytes", "Text of all items of a conversation."),
        .integer(
            "max-conversation-image-bytes", \.maxConversationImageBytes, 0...(1 << 30),
            unit: "bytes",
            "Images that a conversation may hold, as base64, where its model takes images."),
        .integer(
            "model-context-tokens", \.modelContextTokens, 1_024...100_000_000,
            unit: "tokens",
            "The model's context. The oldest items beyond it are not sent to the model."),
        .integer(
            "max-kept-audio-bytes", \.maxKeptAudioBytes, 0...(1 << 30), unit: "bytes",
            "Audio of the user that a client can retrieve with its item."),
        .integer(
            "max-heard-audio-seconds", \.maxHeardAudioSeconds, 1...3_600, unit: "seconds",
            "Audio of turns without a transcript that is sent to a model that hears audio."),
    ]

    // MARK: Responses

    /// UTF-8 bytes that one response may write. 256 KiB: far past any model's output limit.
    public var maxResponseBytes = 256 << 10
    /// Output items (messages and function calls) of one response. 128, as the APIs allow tools.
    public var maxResponseItems = 128
    /// Responses in flight: one in the conversation, the others out of band. 4.
    public var maxActiveResponses = 4
    /// Synthesised audio that may wait to be sent, in seconds; synthesis of the next clause waits
    /// until less is queued. 10: several clauses ahead, 320 kB at 16 kHz.
    public var maxQueuedSpeechSeconds = 10
    /// Time by which reply audio is sent ahead of its playing. 500 ms: bridges a network's hiccup.
    public var playoutLeadMilliseconds = 500
    /// How long speech over a reply must last to interrupt it, where the client does not say. 500:
    /// the reply is silent meanwhile, and coughs and most "mhm"s are shorter.
    public var minInterruptionMilliseconds = 500
    /// What speech over a reply must say to interrupt it, where the client does not say. `words`:
    /// users nod to a person, too, and expect no silence for it.
    public var interruption = TurnDetectionParameters.Interruption.words
    /// How long the end of a turn is waited for with `semantic_vad`, where the client does not say.
    public var patience = TurnDetectionParameters.PatienceChoice.auto

    private static let responses: [Setting<Self>] = [
        .integer(
            "max-response-bytes", \.maxResponseBytes, 1_024...(1 << 30), unit: "bytes",
            "Text that one response may write; it then ends incomplete."),
        .integer(
            "max-response-items", \.maxResponseItems, 1...10_000, unit: "items",
            "Messages and function calls of one response."),
        .integer(
            "max-active-responses", \.maxActiveResponses, 1...1_000, unit: "responses",
            "Responses in flight in one session: one in the conversation, others out of band."),
        .integer(
            "max-queued-speech-seconds", \.maxQueuedSpeechSeconds, 1...3_600,
            unit: "seconds", "Synthesised speech that waits to be played."),
        .integer(
            "playout-lead-ms", \.playoutLeadMilliseconds, 100...60_000,
            unit: "milliseconds",
            "How far reply audio is sent ahead of its playing; bridges a network's hiccup."),
        .integer(
            "min-interruption-ms", \.minInterruptionMilliseconds, 0...10_000,
            unit: "milliseconds",
            """
            How long speech over a reply must last to interrupt it; 0 interrupts at once. The \
            reply is silent meanwhile, and goes on where the speech was shorter.
            """),
        .choice(
            "interruption", \.interruption,
            """
            What speech over a reply must say to interrupt it. any: nothing, its duration counts. \
            words: words that are no assent ("mhm", "okay"). strict: a command ("stop") or three \
            words, for rooms in which others speak. words and strict need a recogniser that hears \
            words while they are spoken, as the embedded one does.
            """),
        .choice(
            "patience", \.patience,
            """
            How long `semantic_vad` waits for the end of a turn. brief, usual or long; auto: long \
            after a question for a number, an address, a name or a date, and while numbers or \
            letters are said; brief after a question for yes or no.
            """),
    ]

    // MARK: Tools of MCP servers

    /// MCP servers that a session is connected to at once. 8: each costs a connection, and the
    /// model reads its tools in every turn.
    public var maxToolServers = 8
    /// Tools of one MCP server that are shown to the model; the others are left out. 128, as the
    /// models' APIs allow.
    public var maxToolsPerServer = 128
    /// Calls of MCP tools that one response makes. 16. More are refused with an error that the model sees.
    public var maxToolCalls = 16
    /// UTF-8 bytes of a tool's answer that are kept. The rest is cut off, with a note to the model.
    /// 64 KiB: some 16,000 tokens, which a model reads quickly.
    public var maxToolResultBytes = 64 << 10
    /// Responses that follow one another by themselves, because tools were called. 8: longer
    /// chains are mostly a model that repeats itself, and each costs a request.
    public var maxAutomaticResponses = 8

    private static let tools: [Setting<Self>] = [
        .integer(
            "max-mcp-servers", \.maxToolServers, 1...16, unit: "servers",
            "MCP servers that a session is connected to at once."),
        .integer(
            "max-mcp-tools", \.maxToolsPerServer, 1...1_024, unit: "tools",
            "Tools of one MCP server that the model is shown."),
        .integer(
            "max-mcp-calls", \.maxToolCalls, 1...1_000, unit: "calls",
            "Calls of MCP tools that one response makes."),
        .integer(
            "max-mcp-result-bytes", \.maxToolResultBytes, 64...(1 << 20), unit: "bytes",
            "How much of a tool's answer is kept; the rest is cut off."),
        .integer(
            "max-automatic-responses", \.maxAutomaticResponses, 1...1_000,
            unit: "responses",
            """
            Responses that follow one another without the user because tools were called. A \
            model that calls tools without end is stopped there.
            """),
    ]

    /// Every setting of a session.
    package static let settings = [
        SettingGroup(.session, conversation + responses), SettingGroup(.mcp, tools),
    ]

    /// The defaults.
    public init() {}
}
