// `parley talk`: its options, and which conversation they ask for. The conversations themselves are
// in TalkConversation, TypedTurn, SpokenTurn and MicrophoneConversation.

import ArgumentParser
import Codec

extension AudioFormat: ExpressibleByArgument {
    /// `opus`, `pcm`, `pcmu` or `pcma`.
    public init?(argument: String) {
        switch argument {
        case "opus": self = .opus
        case "pcm": self = .pcm
        case "pcmu": self = .pcmu
        case "pcma": self = .pcma
        default: return nil
        }
    }

    /// The words of `init(argument:)`.
    public static var allValueStrings: [String] { ["opus", "pcm", "pcmu", "pcma"] }
}

extension AudioTransport: ExpressibleByArgument {
    /// The words of `init(argument:)`.
    public static var allValueStrings: [String] { ["json", "binary"] }
}

/// The command-line client.
struct TalkCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "talk",
        abstract: "Talk to a server: type, send recordings, or use the microphone.",
        discussion: """
            Without options it is a text chat: type a line, read the reply; Ctrl-D ends it. A line \
            that is typed during a reply interrupts it. Lines from a pipe wait for their turn.

              parley talk --wav question.wav --out reply.wav

            sends a recording in real time, as a microphone would, followed by silence until the \
            turn ends, and writes the spoken reply. The printed milliseconds count from the end of \
            speech: the time at which the last loud 10 ms of the recording were sent (within 26 dB \
            of the loudest).

            A connection that breaks is made again, where the server is a Parley: the conversation \
            goes on with what was missed, and with the reply where it broke off.

            The exit status is 1 when the server, a turn or a file fails, and 64 when the options \
            do not fit together.
            """)

    @Option(help: "The server's URL; wss:// for TLS.")
    var url = "ws://127.0.0.1:8080/v1/realtime"

    @Option(help: "The model to ask for.")
    var model = "default"

    @OptionGroup var access: ServerAccessOptions

    @Option(name: .customLong("wav"), help: "Send this recording; give it again for the next turn.")
    var recordings: [String] = []

    @Option(name: .customLong("text"), help: "Send this line; give it again for the next turn.")
    var lines: [String] = []

    @Flag(name: .customLong("mic"), help: "Speak and listen through arecord and aplay.")
    var usesMicrophone = false

    @Option(name: .customLong("out"), help: "Write the spoken reply to this WAV file.")
    var outputPath: String?

    @Option(help: "The audio format in both directions.")
    var format = AudioFormat.opus

    @Option(help: "How reply audio is sent: base64 in events, or binary messages.")
    var transport = AudioTransport.json

    @Option(help: "The language that is spoken, such as fr; otherwise the server finds it out.")
    var language: String?

    @Option(help: "Instructions for the model.")
    var instructions: String?

    @Flag(inversion: .prefixedNo, help: "Come back to the session after a lost connection.")
    var resume = true

    @Flag(name: .customLong("json"), help: "Print every event as one JSON line.")
    var printsJSON = false

    func validate() throws {
        let modes = [!recordings.isEmpty, !lines.isEmpty, usesMicrophone].count { $0 }
        if modes > 1 { throw ValidationError("give only one of --wav, --text and --mic") }
        if outputPath != nil && recordings.isEmpty && lines.isEmpty {
            throw ValidationError("--out needs --wav or --text")
        }
    }

    func run() throws {
        Interruption.watch()
        try reportingFailure {
            let address = try RealtimeURL(url, model: model)
            // Files are read first: a mistyped name should not cost a connection.
            let spoken = try recordings.map { try Recording(path: $0, format: format) }
            let conversation = try TalkConversation(
                client: ResumableClient(
                    url: address, key: access.key, trust: access.trust, asks: resume),
                printer: TalkPrinter(printsJSON: printsJSON),
                parameters: TalkParameters(
                    format: format, transport: transport, language: language,
                    instructions: instructions,
                    isSpoken: !spoken.isEmpty || usesMicrophone,
                    wantsAudio: !spoken.isEmpty || usesMicrophone || outputPath != nil))
            if usesMicrophone {
                try MicrophoneConversation(conversation).run()
            } else if !spoken.isEmpty {
                for recording in spoken { try SpokenTurn(recording, in: conversation).run() }
            } else if !lines.isEmpty {
                for line in lines { try TypedTurn(line, in: conversation).run() }
            } else {
                try TypedChat(conversation).run()
            }
            if let outputPath { try conversation.writeReply(to: outputPath) }
        }
    }
}
