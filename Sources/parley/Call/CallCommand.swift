// `parley call`: its options, and the calls that they ask for. CallScript says what a caller does,
// PlayedCall does it.

import ArgumentParser
import Codec

extension TelephoneCarrier: ExpressibleByArgument {
    /// A carrier by its name.
    public init?(argument: String) { self.init(argument) }

    /// The names of carriers.
    public static var allValueStrings: [String] { allCases.map(\.rawValue) }
}

/// Plays a carrier with calls against a server.
struct CallCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call",
        abstract: "Call a server as a telephone carrier does.",
        discussion: """
            The command plays the carrier and the caller: it sends recordings in real time, in the \
            carrier's own protocol, plays what it gets at its pace, returns marks, and drops what \
            the server wants dropped.

              parley call --carrier twilio --wav question.wav --out reply.wav

            Each recording is a turn: the next one follows when the reply was played. \
            --parameter greeting=… makes the agent speak first; that reply is waited for. Carriers \
            without audio (conversation-relay) take --text in place of --wav.

            The printed milliseconds count from the end of speech to the first audio of the reply. \
            The exit status is 1 when a call fails or a turn has no reply.
            """)

    @Option(help: "The carrier to play.")
    var carrier = TelephoneCarrier.twilio

    @Option(help: "The server's URL; the carrier's path is added where it has none.")
    var url = "ws://127.0.0.1:8080"

    @OptionGroup var access: ServerAccessOptions

    @Option(name: .customLong("auth-token"), help: "Sign as the carrier does, with this token.")
    var authToken: String?

    @Option(
        name: .customLong("signed-url"),
        help: "The URL to sign, where the server is told another than it is dialled at.")
    var signedURL: String?

    @Option(name: .customLong("wav"), help: "Say this recording; give it again for the next turn.")
    var recordings: [String] = []

    @Option(
        name: .customLong("text"),
        help: "Have the carrier recognise this (conversation-relay); again for the next turn.")
    var lines: [String] = []

    @Option(help: "Press these keys after the last turn, for example 12#.")
    var press: String?

    @Option(
        name: .customLong("parameter"),
        help: "A parameter of the call, as voice=ash; give it again for more.")
    var parameters: [String] = []

    @Option(help: "Calls at once.")
    var calls = 1

    @Option(name: .customLong("patience"), help: "Seconds to wait for a reply.")
    var patienceSeconds = 30.0

    @Option(name: .customLong("out"), help: "Write what the first caller heard to this WAV file.")
    var outputPath: String?

    func validate() throws {
        let isText = carrier == .conversationRelay
        if isText, !recordings.isEmpty { throw ValidationError("\(carrier) takes --text") }
        if !isText, !lines.isEmpty { throw ValidationError("--text needs conversation-relay") }
        if isText, outputPath != nil { throw ValidationError("\(carrier) has no audio to write") }
        if !(1...10_000).contains(calls) { throw ValidationError("--calls is 1 to 10000") }
        if !parameters.allSatisfy({ $0.contains("=") }) {
            throw ValidationError("--parameter is NAME=VALUE")
        }
        if let press, !press.allSatisfy("0123456789*#ABCD".contains) {
            throw ValidationError("--press takes 0 to 9, *, #, A to D")
        }
        if authToken != nil, carrier.signing == nil {
            throw ValidationError("\(carrier) does not sign")
        }
    }

    func run() throws {
        Interruption.watch()
        try reportingFailure {
            // Files are read first: a mistyped name should not cost a connection.
            let script = CallScript(
                turns: try recordings.map { .speech(try Recording(path: $0, format: .pcmu)) }
                    + lines.map { .words($0) },
                keys: press ?? "",
                awaitsGreeting: parameters.contains { $0.hasPrefix("greeting=") },
                answersKeys: parameters.contains("dtmf=item"),
                patience: patienceSeconds)
            let address = try RealtimeURL(url, path: "/\(carrier.rawValue)")
            let played = try (1...calls).map { number in
                try PlayedCall(
                    number: number, script: script, writer: writer(number),
                    client: RealtimeClient(
                        url: address, key: access.key, trust: access.trust,
                        fields: signature(for: address),
                        subprotocols: carrier == .asterisk ? ["media"] : []))
            }
            try CallClock(played).run()
            if let outputPath, let first = played.first { try first.writeHeard(to: outputPath) }
            let failed = played.count { $0.failure != nil }
            guard failed == 0 else {
                throw CommandFailure(description: "\(failed) of \(calls) calls have failed")
            }
        }
    }

    /// The facts of one call, in the coding that the carrier has by default.
    private func writer(_ number: Int) -> CarrierWriter {
        var call = TelephoneCall(carrier: carrier)
        call.callID = "call-\(number)"
        call.streamID = "stream-\(number)"
        call.parameters = parameters.map { text in
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return TelephoneParameter(String(parts[0]), String(parts[1]))
        }
        return CarrierWriter(call, carrier == .exotel ? .linear8 : .mulaw)
    }

    private func signature(for address: RealtimeURL) -> [(name: String, value: String)] {
        guard let authToken, let signing = carrier.signing else { return [] }
        let scheme = address.isSecure ? "wss" : "ws"
        let dialled = signedURL ?? "\(scheme)://\(address.authority)\(address.target)"
        let nonce = "\(UInt64.random(in: 0 ... .max))"
        let value = signing.signature(of: dialled, nonce: nonce, token: authToken)
        switch signing {
        case .twilio: return [(signing.field, value)]
        case .plivo: return [(signing.field, value), (CallSigning.nonceField, nonce)]
        }
    }
}
