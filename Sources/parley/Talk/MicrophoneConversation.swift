// `parley talk --mic`: the microphone through arecord, the loudspeaker through aplay (both from
// alsa-utils), so that this program needs no sound library of its own.

import Codec
import Glibc

/// A conversation by microphone, until Ctrl-C.
final class MicrophoneConversation {
    private let conversation: TalkConversation
    private let rate: SampleRate
    private let player: SpeechPlayer

    /// Creates a conversation that has not begun to listen.
    init(_ conversation: TalkConversation) {
        self.conversation = conversation
        rate = conversation.parameters.format.sampleRate
        player = SpeechPlayer(rate: rate)
    }

    /// Listens and plays. Playback stops as soon as the server hears the user.
    /// - Throws: a `CommandFailure` when a program is missing, recording ends, or the connection
    ///   is lost.
    func run() throws {
        guard SoundProgram.isInstalled("arecord"), SoundProgram.isInstalled("aplay") else {
            throw CommandFailure(
                description: "--mic needs arecord and aplay; install them (apt: alsa-utils), "
                    + "or use --wav")
        }
        // Writing to an aplay that has ended must fail, not end this program.
        signal(SIGPIPE, SIG_IGN)
        guard let recorder = SoundProgram("arecord", .output, rate: rate) else {
            throw CommandFailure(description: "arecord cannot be started")
        }
        conversation.endsWithSession = false
        conversation.awayNote = "What you say now is not heard."
        conversation.onReplyAudio = { [player] in player.play($0) }
        conversation.onSpeechStarted = { [player] in player.stop() }
        conversation.printer.showNote("speak; Ctrl-C ends")
        try withExtendedLifetime(recorder) { try record(from: recorder.descriptor) }
    }

    private func record(from descriptor: Int32) throws {
        var encoder = try PacketEncoder(format: conversation.parameters.format)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        let packetBytes = encoder.packetSamples * 2
        var secondsAway = 0.0
        while true {
            let isReadable = try conversation.client.wait(
                alsoFor: descriptor, until: monotonicSeconds() + 10)
            if conversation.client.secondsAway > secondsAway {
                secondsAway = conversation.client.secondsAway
                drop(from: descriptor)
                bytes = []
                continue
            }
            if isReadable {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else {
                    throw CommandFailure(description: "arecord ended; is there a microphone?")
                }
                bytes.append(contentsOf: buffer[..<count])
            }
            while bytes.count >= packetBytes {
                let samples = (0..<encoder.packetSamples).map {
                    Int16(bitPattern: UInt16(bytes[2 * $0]) | UInt16(bytes[2 * $0 + 1]) << 8)
                }
                bytes.removeFirst(packetBytes)
                try conversation.client.send(binary: encoder.encode(samples))
            }
            while conversation.client.hasMessage { try conversation.step(until: 0) }
        }
    }
}

/// Drops the audio that waits in a pipe.
private func drop(from descriptor: Int32) {
    var buffer = [UInt8](repeating: 0, count: 16_384)
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    while poll(&entry, 1, 0) > 0, entry.revents & Int16(POLLIN) != 0,
        read(descriptor, &buffer, buffer.count) > 0
    {}
}

/// Plays samples through aplay, and can stop at once.
private final class SpeechPlayer {
    private let rate: SampleRate
    private var program: SoundProgram?

    init(rate: SampleRate) { self.rate = rate }

    /// Plays samples after those that are playing. Without a sound card, nothing happens.
    func play(_ samples: [Int16]) {
        if program == nil { program = SoundProgram("aplay", .input, rate: rate) }
        guard let program else { return }
        samples.withUnsafeBytes { writeAll($0, to: program.descriptor) }
    }

    /// Drops the samples that have not been played.
    func stop() { program = nil }
}
