// One turn of `parley talk --wav`: a recording is sent at the pace of a microphone, and the reply is
// followed.

import Codec

/// Sends a recording in real time, then silence until the turn is over.
struct SpokenTurn {
    /// Silence that follows a recording before its turn can be over: the server needs time to
    /// notice speech at the very end.
    private static let leastSilenceSeconds = 0.4
    /// How long the server may take to hear anything, and to complete an answer.
    private static let hearingSeconds = 10.0
    private static let answerSeconds = 180.0

    private let recording: Recording
    private let conversation: TalkConversation

    /// Creates a turn that has not been sent.
    init(_ recording: Recording, in conversation: TalkConversation) {
        self.recording = recording
        self.conversation = conversation
    }

    /// Sends everything and follows the answer to its end.
    /// - Throws: a `CommandFailure` when nothing was heard, or the turn failed or took too long.
    func run() throws {
        var encoder = try PacketEncoder(format: conversation.parameters.format)
        let rate = Double(recording.rate.hertz)
        var start = monotonicSeconds()
        var end: Double { start + Double(recording.samples.count) / rate }
        var secondsAway = conversation.client.secondsAway
        conversation.beginTurn()
        var sent = 0
        while !isOver(after: end) && conversation.failures.isEmpty {
            // The recording waits for a connection that was lost.
            start += conversation.client.secondsAway - secondsAway
            secondsAway = conversation.client.secondsAway
            try checkPatience(after: end)
            // A packet is complete, and can be sent, when its last sample has been recorded.
            let due = start + Double(sent + encoder.packetSamples) / rate
            while monotonicSeconds() < due { try conversation.step(until: due) }
            try conversation.client.send(binary: encode(&encoder, from: sent))
            sent += encoder.packetSamples
        }
        let endOfSpeech = start + Double(recording.samplesOfSpeech) / rate
        conversation.showTimings(since: endOfSpeech, of: "the end of speech")
        try conversation.checkTurn()
    }

    private func isOver(after end: Double) -> Bool {
        let now = monotonicSeconds()
        return now > end + Self.leastSilenceSeconds && conversation.isTurnOver(at: now)
    }

    private func checkPatience(after end: Double) throws {
        let waited = monotonicSeconds() - end
        let progress = conversation.progress
        if waited > Self.hearingSeconds && progress.turnCount == 0 && !progress.isSpeechHeard {
            throw CommandFailure(description: "the server heard no speech in the recording")
        }
        if waited > Self.answerSeconds {
            throw CommandFailure(
                description: "no complete reply within \(Int(Self.answerSeconds)) s")
        }
    }

    /// The packet that begins at a sample. Silence fills it up where the recording ends.
    private func encode(_ encoder: inout PacketEncoder, from sent: Int) throws -> [UInt8] {
        let first = min(sent, recording.samples.count)
        let last = min(sent + encoder.packetSamples, recording.samples.count)
        var samples = Array(recording.samples[first..<last])
        samples += repeatElement(0, count: encoder.packetSamples - samples.count)
        return try encoder.encode(samples)
    }
}
