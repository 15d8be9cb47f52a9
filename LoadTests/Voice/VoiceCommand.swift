// `parley-load voice`: the cost of speaking sessions beside the bare cost of their codec and voice
// activity, and the delays of a conversation. VoiceCost and VoiceLatency measure them.

import ArgumentParser
import CLinux
import Foundation

/// The cost of speaking sessions, and the delays of one conversation.
struct VoiceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "voice",
        abstract: "Measure what speaking sessions cost, and the delays of a conversation.",
        discussion: """
            Cost: sessions speak in real time, without a pause unless --speech-share says otherwise, to \
            a server on one core. Alternating \
            with that, a loop on the same core decodes the same packets and computes their voice \
            activity, and does nothing else. The result is the ratio of both, and the memory that \
            a speaking session takes. Delays: one session talks with the embedded parts, and \
            interrupts every reply; each step on the way from voice to voice is named. \
            `make bench-voice` builds and runs it; run it from the repository's root.
            """)

    @Option(help: "Sessions that speak.")
    var sessions = 150

    @Option(
        help: """
            How much of the time each session speaks, in percent. Less than 100: the recording and a \
            pause take turns, and the pauses are sent as discontinuous transmission (DTX) sends them.
            """)
    var speechShare = 100

    @Option(help: "Measurements of the sessions, and of the bare loop.")
    var rounds = 5

    @Option(help: "Seconds of each measurement of the sessions.")
    var seconds = 4

    @Option(help: "Turns of the conversation; 0: no conversation.")
    var turns = 20

    @Option(help: "How long a reply plays before it is interrupted, in milliseconds.")
    var interruptAfter = 600

    @Option(help: "The server's port; the conversation's server has the next.")
    var port: UInt16 = 9170

    @Option(help: "Parley's binary.")
    var parley = ".build/release/parley"

    @Option(help: "The folder of the models.")
    var models = "models"

    @Option(name: .customLong("wav"), help: "The speech without a pause: a WAV file.")
    var recording =
        "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav"

    @Option(help: "The speech in the conversation: a WAV file.")
    var utterance =
        "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0880.wav"

    func validate() throws {
        guard (1...2_000).contains(sessions), rounds >= 1, seconds >= 1, turns >= 0,
            interruptAfter >= 0
        else { throw ValidationError("--sessions are 1…2000, --rounds and --seconds at least 1") }
        guard (1...100).contains(speechShare) else {
            throw ValidationError("--speech-share is 1…100 percent")
        }
    }

    func run() throws {
        do throws(LoadFailure) {
            let cost = try VoiceCost(
                sessions: sessions, speechShare: speechShare, rounds: rounds, seconds: seconds,
                port: port, parley: parley,
                models: models, recording: recording, executable: CommandLine.arguments[0])
            print(try cost.run())
            guard turns > 0 else { return }
            let latency = VoiceLatency(
                turns: turns, interruptAfter: interruptAfter, port: port + 1, parley: parley,
                models: models, utterance: utterance)
            print("\n" + (try latency.run()))
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }
}
