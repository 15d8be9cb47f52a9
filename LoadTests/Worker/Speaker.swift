// The speech of a session and the timing of the replies to it. Pure: the time is an argument.
//
// An interrupting speaker sends its recording once, is silent until enough of the reply has played,
// and then speaks again. Any other speaker repeats the recording and its pause.

/// A session's speech, and the reply to it.
struct Speaker {
    /// Time without a reply after which a turn counts as failed and is repeated, in nanoseconds.
    private static let patience: Int64 = 15_000_000_000
    /// Time after an interruption in which late reply audio is recorded, in nanoseconds.
    private static let lateAudioWait: Int64 = 1_000_000_000

    /// Nanoseconds of a reply after which it interrupts; nil: it never interrupts.
    let interruptsAfter: Int64?
    /// Whether a turn without a reply counts as failed.
    private let awaitsReplies: Bool
    private let packets: Int
    private let speechPackets: Int
    private let firstLoudPacket: Int
    /// The number of the next packet in the recording.
    private(set) var position: Int
    /// The time at which the last loud packet of the turn was due. Nil while the turn is spoken,
    /// and once its reply has begun.
    private(set) var endOfSpeech: Int64?
    private var awaitsAudio = false
    /// The arrival of the reply's first audio.
    private var audioBegan: Int64?
    private var lastAudio: Int64?
    /// The time at which the first packet of the interruption was due.
    private var interruptionBegan: Int64?
    private var isInterruptionHeard = false
    /// The reply item whose audio arrives, the arrival of its first packet, and that packet's
    /// position.
    private var playing: (item: (UInt64, UInt64), begin: Int64, position: Int)?

    init(_ speech: SpokenLoop, interruptsAfter: Int64?, awaitsReplies: Bool) {
        self.init(
            packets: speech.packets.count, speechPackets: speech.speechPackets,
            firstLoudPacket: speech.firstLoudPacket, interruptsAfter: interruptsAfter,
            awaitsReplies: awaitsReplies)
    }

    /// Creates a speaker of a recording, given as its number of packets, the packets up to the end
    /// of speech, and the first loud packet.
    init(
        packets: Int, speechPackets: Int, firstLoudPacket: Int, interruptsAfter: Int64?,
        awaitsReplies: Bool = true
    ) {
        self.awaitsReplies = awaitsReplies
        self.packets = packets
        self.speechPackets = speechPackets
        self.firstLoudPacket = firstLoudPacket
        self.interruptsAfter = interruptsAfter
        position = interruptsAfter == nil ? 0 : firstLoudPacket
    }

    /// Advances to the packet that is due.
    /// - Returns: its number in the recording.
    mutating func nextPacket(
        due: Int64, into latencies: inout LatencyRecorder, _ counts: inout LoadCounts
    ) -> Int {
        if interruptsAfter != nil { considerInterrupting(due, &latencies, &counts) }
        let packet = position
        position += 1
        if position == speechPackets {
            // The previous turn has got no reply until now.
            if awaitsReplies, endOfSpeech != nil { counts.turnsFailed += 1 }
            endOfSpeech = due
        }
        if position >= packets { position = interruptsAfter == nil ? 0 : packets - 1 }
        return packet
    }

    private mutating func considerInterrupting(
        _ due: Int64, _ latencies: inout LatencyRecorder, _ counts: inout LoadCounts
    ) {
        if let began = interruptionBegan, due - began >= Self.lateAudioWait {
            latencies.record(.replyStopped, max(0, (lastAudio ?? began) - began))
            interruptionBegan = nil
        }
        if let began = audioBegan, let wait = interruptsAfter, due - began >= wait {
            counts.interruptions += 1
            position = firstLoudPacket
            interruptionBegan = due
            (isInterruptionHeard, audioBegan, lastAudio, endOfSpeech) = (false, nil, nil, nil)
            awaitsAudio = false
        } else if let end = endOfSpeech, due - end > Self.patience {
            counts.turnsFailed += 1
            position = firstLoudPacket
            endOfSpeech = nil
        }
    }

    /// The server has sent `speech_started`.
    mutating func handleSpeechStarted(at now: Int64, into latencies: inout LatencyRecorder) {
        guard let began = interruptionBegan, !isInterruptionHeard else { return }
        isInterruptionHeard = true
        latencies.record(.speechStarted, now - began)
    }

    /// The server has sent a transcript.
    func handleTranscript(at now: Int64, into latencies: inout LatencyRecorder) {
        if let endOfSpeech { latencies.record(.transcript, now - endOfSpeech) }
    }

    /// A response has begun.
    mutating func handleResponse() { awaitsAudio = true }

    /// A packet of reply audio has arrived (PROTOCOL.md, binary output).
    mutating func handleAudio(
        _ audio: UnsafeRawBufferPointer, at now: Int64, into latencies: inout LatencyRecorder,
        _ counts: inout LoadCounts
    ) {
        guard audio.count >= 24, audio[0] == 1 else { return }
        counts.audioPackets += 1
        if interruptionBegan != nil { lastAudio = now }
        if awaitsAudio {
            awaitsAudio = false
            if let endOfSpeech {
                latencies.record(.firstAudio, now - endOfSpeech)
                audioBegan = now
            }
            endOfSpeech = nil
        }
        let samplePosition = Int(
            UInt32(littleEndian: audio.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
        let item = (
            audio.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
            audio.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        )
        guard let playing, playing.item == item else {
            playing = (item, now, samplePosition)
            return
        }
        // A player without a buffer plays a packet this long after the item's first.
        let offset = Int64(samplePosition - playing.position) * 1_000_000_000 / 48_000
        let lateness = now - (playing.begin + offset)
        latencies.record(.audioLateness, max(0, lateness))
        if lateness > 0 { counts.latePackets += 1 }
    }
}
