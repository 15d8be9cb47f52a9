// A client without headphones, on a virtual clock. Its microphone picks up the reply from its
// loudspeaker, later and softer, and a user may speak over it. The client plays audio at once,
// stops at `speech_started`, and receives the rest of a reply after a false interruption.

import Codec
import Session

/// How the reply sounds in the microphone.
struct EchoRoom: Sendable {
    /// Level relative to the loudspeaker, in decibels.
    let gain: Float
    let delayMilliseconds: Int
    /// Whether the room has reverberation (200 ms).
    let isLive: Bool
}

/// Two replies to one client. A user may speak over the second one.
final class EchoTrial {
    /// Times of `speech_started`, in milliseconds from the start of the second reply.
    private(set) var onsets: [Int] = []
    /// How often speech was detected during the first reply.
    private(set) var onsetsBefore = 0
    /// Duration of the second reply's playback.
    private(set) var duration = 0
    /// Time at which the second reply was interrupted.
    private(set) var interruption: Int?

    private let session: VoiceSession
    private let room: EchoRoom
    private let replies: [[Int16]]
    private var noise = SeededNoise()
    private var toServer: Resampler
    /// The samples played, at 16 kHz.
    private var loudspeaker: [Float] = []
    private var now = 0
    private var current = -1
    private var begun: Int?
    private var isDone = false

    init(model: VoiceActivityModel, room: EchoRoom, replies: [[Int16]]) throws {
        var parameters = SessionParameters(model: "none")
        parameters.outputTransport = .binary
        parameters.outputFormat = .pcm
        parameters.turnDetection?.createResponse = false
        let context = SessionContext(
            voiceActivityModel: model, hasRecognizer: true, hasSynthesizer: true)
        session = VoiceSession(parameters: parameters, context: context, seed: 1)
        toServer = try Resampler(from: .hz16000, to: .hz24000)
        self.room = room
        self.replies = replies
    }

    /// - Parameters:
    ///   - user: speech over the second reply.
    ///   - start: its start, in milliseconds from the start of that reply.
    func run(user: [Int16] = [], at start: Int = 0, hearsEcho: Bool = true) throws {
        session.start(at: .milliseconds(0))
        drain()
        try listen(user: [], from: 0, hearsEcho: hearsEcho) { $0.now >= 600 }
        for index in replies.indices {
            current = index
            begun = nil
            isDone = false
            let speech = index == 1 ? user : []
            session.handle(
                .responseCreate(ResponseParameters()), eventID: nil, audio: RawSpan(),
                at: .milliseconds(now))
            drain()
            let first = now
            try listen(user: speech, from: now + start, hearsEcho: hearsEcho) { trial in
                trial.isDone && trial.loudspeaker.count / 16 + 1_500 < trial.now
                    || trial.now - first > 60_000
            }
        }
    }

    private func listen(
        user: [Int16], from start: Int, hearsEcho: Bool, until isOver: (EchoTrial) -> Bool
    ) throws {
        while !isOver(self) {
            let from = now * 16
            var packet = [Int16](repeating: 0, count: 320)
            for index in packet.indices {
                // Approximately pink noise at −66 dB.
                var sample = 14 * noise.next()
                if hearsEcho { sample += echo(at: from + index - room.delayMilliseconds * 16) }
                let place = from + index - start * 16
                if user.indices.contains(place) { sample += Float(user[place]) }
                packet[index] = Int16(max(-32_768, min(32_767, sample)))
            }
            advance(to: now + 20)
            let bytes = try encode(packet)
            session.handleAudioPacket(bytes.span.bytes, at: .milliseconds(now))
            drain()
        }
    }

    private func echo(at place: Int) -> Float {
        let scale = Self.factor(room.gain)
        func played(_ place: Int) -> Float {
            loudspeaker.indices.contains(place) ? loudspeaker[place] : 0
        }
        guard room.isLive else { return played(place) * scale }
        // Reflections from a few walls, each softer than the one before.
        return scale
            * (0.8 * played(place) + 0.35 * played(place - 173) - 0.3 * played(place - 411)
                + 0.25 * played(place - 797) + 0.18 * played(place - 1_381)
                - 0.12 * played(place - 2_203) + 0.08 * played(place - 3_109))
    }

    /// Decibels as a factor.
    static func factor(_ decibels: Float) -> Float {
        var factor: Float = 1
        for _ in 0..<Int(abs(decibels).rounded()) { factor *= 1.122018 }
        return decibels < 0 ? 1 / factor : factor
    }

    private func encode(_ samples: [Int16]) throws -> [UInt8] {
        let room = toServer.maxOutputSamples(for: samples.count)
        let output = [Int16](unsafeUninitializedCapacity: room) { target, count in
            count = samples.withUnsafeBufferPointer { toServer.process($0, into: target) }
        }
        return output.flatMap {
            [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
        }
    }

    // MARK: The session

    private func advance(to time: Int) {
        while let deadline = session.nextDeadline(after: .milliseconds(now)),
            deadline <= .milliseconds(time)
        {
            now = max(now, Int(deadline.nanoseconds / 1_000_000))
            session.handleDeadline(at: deadline)
            drain()
        }
        now = time
    }

    private func drain() {
        var answers: [AgentEvent] = []
        while let output = session.nextOutput() {
            switch output {
            case .audio(let packet): play(packet)
            case .event(let event): take(event)
            case .command(let command): answers += answer(command)
            default: break
            }
        }
        for answer in answers {
            session.handle(answer, at: .milliseconds(now))
            drain()
        }
    }

    private func answer(_ command: AgentCommand) -> [AgentEvent] {
        switch command {
        case .respond(let id, _):
            [.modelDelta(responseID: id, .text("Speech.")), .modelFinished(responseID: id)]
        case .speak(let id, _):
            [
                .speech(responseID: id, SpeechChunk(samples: replies[current], rate: .hz16000)),
                .speechFinished(responseID: id),
            ]
        case .transcribe(let itemID, _): [.transcript(itemID: itemID, text: "")]
        default: []
        }
    }

    private func take(_ event: ServerEvent) {
        switch event {
        case .inputAudioBufferSpeechStarted:
            // The client stops playback.
            loudspeaker.removeLast(max(0, loudspeaker.count - now * 16))
            if current < 1 {
                onsetsBefore += 1
            } else {
                onsets.append(now - (begun ?? now))
            }
        case .responseDone(let response):
            isDone = true
            guard current == 1, case .cancelled = response.status else { return }
            interruption = now - (begun ?? now)
        default: break
        }
    }

    /// Appends a packet to the audio that is being played.
    private func play(_ packet: OutputAudioPacket) {
        if begun == nil { begun = now }
        let silence = max(0, now * 16 - loudspeaker.count)
        loudspeaker += [Float](repeating: 0, count: silence)
        // The packet is at 24 kHz. Instead, its source samples are used, which are more exact.
        let from = packet.position * 2 / 3
        let end = min(replies[current].count, (packet.position + packet.payload.count / 2) * 2 / 3)
        loudspeaker += replies[current][min(from, end)..<end].map { Float($0) }
        if let begun { duration = loudspeaker.count / 16 - begun }
    }
}
