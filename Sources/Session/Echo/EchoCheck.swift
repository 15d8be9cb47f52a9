// Whether the microphone hears the agent's own reply and nothing else. Such sound counts as
// silence: it neither holds the reply nor becomes a turn. A user who speaks over the echo is still
// heard. EchoPath tells the two apart; PlayedLevels knows what was played, and when.
//
// Invariant: while no reply can be heard, only the learned echo path is kept. While a reply is
// held, no sound counts as its echo, because the client is silent.

import Codec

/// One session's ears for its own voice.
final class EchoCheck {
    private let lead: Duration
    private var path = EchoPath()
    private var playing: Playing?

    /// State that is needed only while a reply can be heard: 2 kB.
    private final class Playing {
        static let objectBytes = HeapBlock.object(Playing.self)

        var reply: PlayedLevels
        var evidence = EchoEvidence(delays: EchoPath.delays)
        var bands = SpeechBands(rate: .hz16000)

        init(_ reply: PlayedLevels) { self.reply = reply }
    }

    /// - Parameter lead: how far audio is sent ahead of its playing.
    init(lead: Duration) { self.lead = lead }

    /// By how much the echo is late, in milliseconds, if that is known.
    var delayMilliseconds: Int? {
        path.delay.map {
            SampleRate.hz48000.milliseconds(ofSamples: $0 * SpeechBands.frameLength)
        }
    }

    /// Bytes of the object itself, with the learned echo path.
    static let objectBytes = HeapBlock.object(EchoCheck.self)

    /// Bytes of all of it, most of them while a reply is heard.
    var heldBytes: Int { Self.objectBytes + playingBytes }

    private var playingBytes: Int {
        guard let playing else { return 0 }
        return Playing.objectBytes + playing.reply.heldBytes + playing.evidence.heldBytes
    }

    // MARK: The reply

    /// Audio was sent for the first time.
    /// - Parameter start: when a client that plays at once plays it.
    func handleReply(
        _ samples: UnsafeBufferPointer<Int16>, rate: SampleRate, playedFrom start: Instant
    ) {
        let playing = playing ?? Playing(PlayedLevels(lead: lead, at: start))
        self.playing = playing
        playing.reply.append(samples, rate: rate, playedFrom: start)
    }

    /// The reply is held.
    func hold(at now: Instant) {
        playing?.reply.hold(at: now)
        path.rest()
    }

    /// The reply goes on.
    /// - Parameter again: how much of it is sent again, in samples at 48 kHz.
    func goOn(with again: Int, at now: Instant) { playing?.reply.goOn(with: again, at: now) }

    /// The reply is over.
    func stop(at now: Instant) { playing?.reply.stop(at: now) }

    /// Frees the state of the last reply, once its echo has died away.
    func releaseIfOver(at now: Instant) {
        guard playing?.reply.isOver(at: now) == true else { return }
        playing = nil
        path.rest()
    }

    // MARK: The input

    /// Takes a run of the microphone's audio at 16 kHz that ends at an instant.
    /// - Returns: whether it is the reply's echo and nothing else.
    func explains(_ samples: UnsafeBufferPointer<Int16>, endingAt end: Instant) -> Bool {
        guard let playing, !playing.reply.isHeld else { return false }
        let reply = playing.reply
        let frames = samples.count * 3 / SpeechBands.frameLength
        var frame = reply.frame(at: end) - frames
        var isExplained = true
        playing.bands.process(samples) { levels in
            frame += 1
            let isEcho = path.handle(levels, at: frame, of: reply, &playing.evidence)
            isExplained = isExplained && isEcho
        }
        return isExplained
    }
}
