// What the generator learns from the messages of one session: turns, their delays, and whether
// reply audio came in time. Pure: the time is an argument.

import Codec

/// What happened in all sessions together.
struct LoadCounts {
    var sessionsReady = 0
    var transcripts = 0
    var responsesCompleted = 0
    var responsesCancelled = 0
    var responsesFailed = 0
    var errorEvents = 0
    var audioPackets = 0
    /// Reply packets that came after the moment at which they should have been heard.
    var latePackets = 0
    /// Connections lost, by reason in the order of their first occurrence.
    var failures: [(reason: String, count: Int)] = []
    /// Nanoseconds from the end of speech.
    var transcriptDelays = Samples()
    var firstAudioDelays = Samples()
    /// How long before (negative) or after its hearing a reply packet came, in nanoseconds.
    var audioLateness = Samples()
    /// How long after it was due the generator itself sent a packet, in nanoseconds.
    var sendLateness = Samples()

    mutating func countFailure(_ reason: String) {
        if let index = failures.firstIndex(where: { $0.reason == reason }) {
            failures[index].count += 1
        } else {
            failures.append((reason, 1))
        }
    }
}

/// Follows the messages of one session.
struct SessionObserver {
    /// When the user's last turn ended, by the clock that packets are due by; nil: not since the
    /// last answer.
    var endOfSpeech: Int64?
    /// Whether the session is configured.
    private(set) var isReady = false
    private var awaitsAudio = false
    /// The reply item whose audio arrives: when its first packet came, and that packet's position.
    private var playing: (item: [UInt8], begin: Int64, position: Int)?

    /// Follows an event. Only the few types that count are told apart, by their names: a generator
    /// that parsed every event would measure itself.
    mutating func handle(
        event: UnsafeRawBufferPointer, at now: Int64, into counts: inout LoadCounts
    ) {
        let head = String(decoding: event.prefix(200), as: UTF8.self)
        if head.contains("\"session.updated\"") {
            isReady = true
            counts.sessionsReady += 1
        } else if head.contains("input_audio_transcription.completed\"") {
            counts.transcripts += 1
            if let endOfSpeech { counts.transcriptDelays.append(now - endOfSpeech) }
        } else if head.contains("\"response.created\"") {
            awaitsAudio = true
        } else if head.contains("\"response.done\"") {
            countResponse(event, into: &counts)
        } else if head.contains("\"type\":\"error\"") {
            counts.errorEvents += 1
            counts.countFailure("error event: \(head)")
        }
    }

    private func countResponse(_ event: UnsafeRawBufferPointer, into counts: inout LoadCounts) {
        let text = String(decoding: event, as: UTF8.self)
        if text.contains("\"status\":\"cancelled\"") {
            counts.responsesCancelled += 1
        } else if text.contains("\"status\":\"failed\"") {
            counts.responsesFailed += 1
            counts.countFailure("failed response: \(text.prefix(300))")
        } else {
            counts.responsesCompleted += 1
        }
    }

    /// Follows a packet of reply audio (PROTOCOL.md, binary output).
    mutating func handle(
        audio: UnsafeRawBufferPointer, at now: Int64, into counts: inout LoadCounts
    ) {
        guard audio.count >= 24, audio[0] == 1 else { return }
        counts.audioPackets += 1
        if awaitsAudio {
            awaitsAudio = false
            if let endOfSpeech { counts.firstAudioDelays.append(now - endOfSpeech) }
            endOfSpeech = nil
        }
        let position = Int(
            UInt32(littleEndian: audio.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
        let item = Array(audio[8..<24])
        guard let playing, playing.item == item else {
            playing = (item, now, position)
            return
        }
        // A listener without any buffer hears a packet this long after the item's first.
        let offset = Int64(position - playing.position) * 1_000_000_000 / 48_000
        let lateness = now - (playing.begin + offset)
        counts.audioLateness.append(lateness)
        if lateness > 0 { counts.latePackets += 1 }
    }
}
