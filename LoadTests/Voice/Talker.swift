// The client of `parley-load voice`'s conversation: sends its packets on schedule, and records when
// the server's messages arrive. VoiceLatency computes the delays.

import CLinux
import Codec

/// One session that speaks, listens and interrupts.
final class Talker {
    /// Time limit of a turn, from its first packet to the reply's audio.
    private static let patience: Int64 = 30_000_000_000

    private let connection: LoadConnection
    private let speech: SpokenLoop
    /// The first loud packet, with which an interruption begins.
    private let firstLoud: Int
    private var turn = HeardTurn()
    /// Packets sent of the turn in progress, including those of the interruption that began it.
    private var sentPackets = 0
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
        sentPackets = firstLoud
    }

    deinit { buffer.deallocate() }

    /// Speaks the utterance, waits for the reply, and interrupts it with the beginning of the next.
    /// - Parameter interruptAfter: nanoseconds of the reply before the interruption.
    func takeTurn(interruptAfter: Int64) throws(LoadFailure) -> HeardTurn {
        let end = monotonicNanoseconds() + Self.patience
        turn = HeardTurn()
        while turn.audio == nil || monotonicNanoseconds() < turn.audio! + interruptAfter {
            guard monotonicNanoseconds() < end else { break }
            try sendNext()
        }
        // The interruption is the beginning of the next turn.
        sentPackets = firstLoud
        turn.interruptionBegan = nextDue
        let heardBy = nextDue + 1_000_000_000
        while nextDue < heardBy { try sendNext() }
        return turn
    }

    /// Receives until the next packet is due, then sends it.
    private func sendNext() throws(LoadFailure) {
        try receive(until: nextDue)
        connection.send(binary: speech.packets[min(sentPackets, speech.packets.count - 1)])
        sentPackets += 1
        if sentPackets == speech.speechPackets { turn.endOfSpeech = nextDue }
        nextDue += SpokenLoop.packetNanoseconds
    }

    private func awaitMessages(_ condition: () -> Bool) throws(LoadFailure) {
        let end = monotonicNanoseconds() + Self.patience
        while !condition() {
            guard monotonicNanoseconds() < end else { throw LoadFailure("the server is silent") }
            try receive(until: monotonicNanoseconds() + 20_000_000)
        }
    }

    private func receive(until deadline: Int64) throws(LoadFailure) {
        while true {
            if case .failed(let reason) = connection.state { throw LoadFailure(reason) }
            let left = deadline - monotonicNanoseconds()
            guard left > 0 else { return }
            let events = POLLIN | (connection.wantsWrite ? POLLOUT : 0)
            var request = pollfd(fd: connection.descriptor, events: Int16(events), revents: 0)
            // `poll` takes whole milliseconds; a short sleep for the rest sends the packet on time.
            guard left >= 1_000_000 else {
                var rest = timespec(tv_sec: 0, tv_nsec: Int(left))
                nanosleep(&rest, nil)
                return
            }
            guard poll(&request, 1, Int32(left / 1_000_000)) > 0 else { continue }
            if request.revents & Int16(POLLOUT) != 0 { connection.handleWritable() }
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
            // Still speaking: the server may take an utterance with a pause for several turns.
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
