// The client of `parley-load voice`'s conversation: says its packets by the clock, and notes when
// the server's messages come. Which delays that makes is VoiceLatency's.

import CLinux
import Codec

/// One session that talks, listens and interrupts.
final class Talker {
    /// How long a turn may take from its first packet to the reply's audio.
    private static let patience: Int64 = 30_000_000_000

    private let connection: LoadConnection
    private let speech: SpokenLoop
    /// The first packet that is loud; an interruption begins with it.
    private let firstLoud: Int
    private var turn = HeardTurn()
    /// Packets said of the turn in progress, which the interruption before it may have begun.
    private var said = 0
    private var nextDue: Int64
    private var isReady = false
    private let buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 256 << 10, alignment: 16)

    /// Connects and sets the session up.
    init(
        to address: ServerAddress, speech: SpokenLoop, update: String
    ) throws(LoadFailure) {
        connection = try LoadConnection(to: LoadServer(address))
        self.speech = speech
        firstLoud = speech.firstLoudPacket
        nextDue = monotonicNanoseconds()
        try awaitMessages { self.connection.state == .open }
        connection.send(text: update)
        try awaitMessages { self.isReady }
        nextDue = monotonicNanoseconds()
        said = firstLoud
    }

    deinit { buffer.deallocate() }

    /// Says the utterance, waits for the reply, and interrupts it with the beginning of the next.
    /// - Parameter interruptAfter: nanoseconds of reply.
    func takeTurn(interruptAfter: Int64) throws(LoadFailure) -> HeardTurn {
        let end = monotonicNanoseconds() + Self.patience
        turn = HeardTurn()
        while turn.audio == nil || monotonicNanoseconds() < turn.audio! + interruptAfter {
            guard monotonicNanoseconds() < end else { break }
            try sayNext()
        }
        // The next turn's words are the interruption.
        said = firstLoud
        turn.interruptionBegan = nextDue
        let heardBy = nextDue + 1_000_000_000
        while nextDue < heardBy { try sayNext() }
        return turn
    }

    /// Waits until the next packet is due, hearing meanwhile, and says it.
    private func sayNext() throws(LoadFailure) {
        try hear(until: nextDue)
        connection.send(binary: speech.packets[min(said, speech.packets.count - 1)])
        said += 1
        if said == speech.speechPackets { turn.endOfSpeech = nextDue }
        nextDue += SpokenLoop.packetNanoseconds
    }

    private func awaitMessages(_ condition: () -> Bool) throws(LoadFailure) {
        let end = monotonicNanoseconds() + Self.patience
        while !condition() {
            guard monotonicNanoseconds() < end else { throw LoadFailure("the server is silent") }
            try hear(until: monotonicNanoseconds() + 20_000_000)
        }
    }

    private func hear(until deadline: Int64) throws(LoadFailure) {
        while true {
            if case .failed(let reason) = connection.state { throw LoadFailure(reason) }
            let left = deadline - monotonicNanoseconds()
            guard left > 0 else { return }
            let events = POLLIN | (connection.wantsWrite ? POLLOUT : 0)
            var request = pollfd(fd: connection.descriptor, events: Int16(events), revents: 0)
            // Whole milliseconds, then the rest: packets leave when they are due.
            guard left >= 1_000_000 else {
                var rest = timespec(tv_sec: 0, tv_nsec: Int(left))
                nanosleep(&rest, nil)
                return
            }
            guard poll(&request, 1, Int32(left / 1_000_000)) > 0 else { continue }
            if request.revents & Int16(POLLOUT) != 0 { connection.handleRoom() }
            guard request.revents & ~Int16(POLLOUT) != 0 else { continue }
            connection.receive(into: buffer) { message in
                let now = monotonicNanoseconds()
                switch message {
                case .text(let event): self.handle(event, at: now)
                case .binary: self.handleAudio(at: now)
                }
            }
        }
    }

    private func handleAudio(at now: Int64) {
        if turn.interruptionBegan != nil {
            turn.lastAudio = now
        } else if turn.token != nil, turn.audio == nil {
            turn.audio = now
        }
    }

    private func handle(_ event: UnsafeRawBufferPointer, at now: Int64) {
        let head = String(decoding: event.prefix(160), as: UTF8.self)
        if head.contains("\"session.updated\"") {
            isReady = true
        } else if turn.interruptionBegan != nil {
            if head.contains("speech_started\""), turn.interruptionHeard == nil {
                turn.interruptionHeard = now
            }
        } else if turn.endOfSpeech == 0 {
            // Still speaking: an utterance with a pause may be several turns to the server.
            return
        } else if head.contains("speech_stopped\"") {
            turn.decided = now
        } else if head.contains("input_audio_transcription.completed\"") {
            turn.transcript = now
        } else if head.contains("output_audio_transcript.delta\""), turn.token == nil {
            turn.token = now
        }
    }
}
