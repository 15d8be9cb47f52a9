// The load generator's command line: scenarios, their numbers, and the table that they print. A
// black box: it knows the server's wire and its /metrics, never its code.

import ArgumentParser

/// `parley-load`: puts load on a running server and prints a table of what it did to it.
@main
struct ParleyLoad: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parley-load", abstract: "Puts load on a running Parley server.",
        subcommands: [
            IdleAndSpeakingCommand.self, EchoCommand.self, IdleMemoryCommand.self,
            VoiceCommand.self,
            EchoGeneratorCommand.self, EchoMessagesCommand.self, BareVoiceCommand.self,
        ])
}

/// Many sessions that only stay open, and some that speak, at once.
struct IdleAndSpeakingCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle-and-speaking",
        abstract: "Open idle sessions, then let others speak beside them.",
        discussion: """
            Speaking sessions send a recording again and again in real time, as Opus packets of \
            20 ms at 24 kb/s, with silence in between, and receive spoken replies. It is an open \
            loop: packets are due by the clock, whatever the server does, and every delay counts \
            from the moment at which a packet was due. A table in Markdown is the result.
            """)

    @Option(help: "Sessions that only stay open.")
    var idle = 1_000

    @Option(help: "Sessions that speak.")
    var speaking = 50

    @Option(help: "How long they speak.")
    var seconds = 30

    @Option(help: "Silence after each run of the recording, in seconds.")
    var pause = 5

    @Option(help: "Where the server is.")
    var url = "ws://127.0.0.1:8080/v1/realtime"

    @Option(name: .customLong("wav"), help: "What is said: a WAV file.")
    var recording =
        "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0880.wav"

    @Option(help: "Seed of the moments at which sessions begin to speak.")
    var seed: UInt64 = 1

    func validate() throws {
        guard idle >= 0, speaking >= 0, seconds > 0, pause >= 1, idle + speaking > 0 else {
            throw ValidationError(
                "--idle and --speaking are 0 or more, --seconds and --pause at least 1")
        }
    }

    func run() throws {
        do throws(LoadFailure) {
            let server = try ServerAddress(url)
            let scenario = try IdleAndSpeaking(
                server: server, idle: idle, speaking: speaking, seconds: seconds,
                speech: SpokenLoop(path: recording, pauseSeconds: pause), seed: seed)
            print(try scenario.run().table)
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }
}
