// `parley-load model`: the command line of the scripted model server.

import ArgumentParser

/// A model server that answers from a script.
struct ModelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model",
        abstract: "Serve a scripted model: OpenAI's chat completions, and speech services.",
        discussion: """
            POST /v1/chat/completions answers with server-sent events at a given pace (or as one \
            object, without "stream": true). Every delta is a space and the time at which it \
            was sent, in nanoseconds of the machine's monotonic clock: a client on the same \
            machine subtracts it from its own clock and gets the delay of the delta. \
            Deltas that are late because a client did not read have the times at which they were due. \
            The last user message may change the script of its answer: "tokens=500 rate=20 \
            first=1000" (first in milliseconds).

            POST /v1/audio/transcriptions answers with the same text for any audio, POST \
            /v1/audio/speech with a tone as long as the text (pcm, 24 kHz), so that a server can \
            have spoken conversations without models.

            One process can have 19,900 connections here (`ulimit -n`); start several on \
            different ports for more.

            EXAMPLES
              parley-load model --port 9300 --tokens 500 --rate 50
              parley serve --llm-url http://127.0.0.1:9300/v1
              curl -N 127.0.0.1:9300/v1/chat/completions -d \
            '{"stream":true,"messages":[{"role":"user","content":"tokens=5 rate=2"}]}'
            """)

    @Option(help: "The port on 127.0.0.1.")
    var port: UInt16 = 9300

    @Option(help: "Deltas of an answer, 0…1000000.")
    var tokens = 50

    @Option(help: "Deltas per second, 0.01…100000.")
    var rate = 50.0

    @Option(help: "Milliseconds to the first delta, 0…600000.")
    var first = 200.0

    @Flag(help: "Deltas are words instead of times.")
    var plain = false

    @Option(help: "The text of every transcript.")
    var transcript = "what is the weather like today"

    @Option(help: "Milliseconds to a transcript, 0…600000.")
    var transcriptAfter = 50.0

    @Option(help: "Letters spoken per second, 1…1000; an answer lasts at most 60 s.")
    var speech = 15.0

    @Flag(help: "Print nothing at the start.")
    var quiet = false

    func validate() throws {
        guard (0...1_000_000).contains(tokens), (0.01...100_000).contains(rate),
            (0...600_000).contains(first), (0...600_000).contains(transcriptAfter),
            (1...1_000).contains(speech), !transcript.contains(where: { "\"\\".contains($0) })
        else {
            throw ValidationError(
                "--tokens is 0…1000000, --rate 0.01…100000, --first and --transcript-after "
                    + "0…600000, --speech 1…1000, --transcript has no quotes")
        }
    }

    func run() throws {
        var script = ModelScript()
        script.tokens = tokens
        script.tokensPerSecond = rate
        script.firstTokenMilliseconds = first
        script.isPlain = plain
        let speech = ScriptedModel.Speech(
            transcript: transcript, transcriptMilliseconds: transcriptAfter,
            lettersPerSecond: speech)
        try reportingFailures { () throws(LoadFailure) in
            raiseDescriptorLimit()
            let model = try ScriptedModel(port: port, script: script, speech: speech)
            if !quiet {
                printError("a scripted model listens on http://127.0.0.1:\(port)/v1\n")
            }
            try model.run()
        }
    }
}

/// Runs a command's work. On a failure it prints the reason and ends the program with code 1.
func reportingFailures(_ work: () throws(LoadFailure) -> Void) throws {
    do throws(LoadFailure) { try work() } catch {
        printError("parley-load: \(error.reason)\n")
        throw ExitCode(1)
    }
}
