// The front of a carrier: one telephone line. This file has its state: the carrier and the call, the audio
// that the carrier has been given, the order of the caller's audio, and keys that were pressed. The
// extensions beside it have the messages from and to the carrier; the session knows nothing of it.
//
//   awaiting the call ── started ──▶ on the call ── stopped, or the connection ends ──▶ gone
//
// Invariant: a line that awaits its call knows who seeks the place of its session; one on the call has a
// session. A mark of a generation before the last `clear` counts for nothing: the carrier
// returns it although the audio before it was dropped.

import Codec
import Session

/// One call's line.
final class TelephoneFront {
    /// The carrier at the other end.
    let carrier: TelephoneCarrier
    /// The state that it shares with the other lines of its shard.
    let switchboard: Switchboard
    /// The tag of the line's caller.
    let tag: CallerTag
    /// The seeker of the session's place, until the call has begun.
    private var seeker: PlaceSeeker?
    /// The models that the caller's credential opens.
    let allowance: SessionAllowance
    /// The facts of the call; nil before it has begun.
    private(set) var call: TelephoneCall?
    /// Writes to a line with audio; nil before the call, and where the carrier speaks itself.
    private(set) var writer: LineWriter?
    /// The order of the caller's audio.
    var order = MediaOrder()
    /// Keys of the caller that become a turn. Nil where keys become no turn.
    private(set) var keypad: Keypad?
    /// How often the carrier's queue was cleared.
    private var generation: UInt32 = 0
    /// Whether audio was sent since then.
    private var hasQueuedAudio = false
    /// Whether the carrier was told since then what precedes audio (`LineWriter.open`).
    private var isOpen = false
    /// Whether the carrier has paused its queue.
    private var isPaused = false
    /// Whether the carrier's queue takes more audio.
    private var hasRoom = true
    /// The language that a carrier recognises and speaks. Where nil, it is the one that it begins
    /// with.
    private var language: String?
    /// Responses outside the conversation, whose words are not for the caller.
    private var unspoken: [String] = []
    /// Turns the reply's text into the words that a voice speaks.
    private var speech = SpokenMarkdown()

    /// A line whose call has not begun.
    init(_ carrier: TelephoneCarrier, seeker: PlaceSeeker, on switchboard: Switchboard) {
        self.carrier = carrier
        self.switchboard = switchboard
        self.seeker = seeker
        tag = seeker.tag
        allowance = seeker.caller.allowance
    }

    /// Bytes of the object itself.
    private static let objectBytes = HeapBlock.object(TelephoneFront.self)
    /// Bytes of the whole front.
    var heldBytes: Int {
        Self.objectBytes + (call?.heapBytes ?? 0) + (writer?.heapBytes ?? 0) + order.heapBytes
            + (keypad?.digits.heapBytes ?? 0) + unspoken.heapBytes
            + language.heapBytes + speech.heapBytes
    }

    /// When the line must be handled although no bytes come, or nil where it never must.
    var deadline: Instant? { keypad?.due }

    /// Takes the seeker of the place of the session that begins, or returns nil where the call has
    /// begun.
    func takeSeeker() -> PlaceSeeker? { seeker.take() }

    /// The call has begun.
    func begin(_ start: TelephoneStart) {
        call = start.call
        writer = start.coding.map { LineWriter(start, $0) }
        if start.call.parameter("dtmf") == "item" { keypad = Keypad() }
    }

    // MARK: What is played

    /// Audio is sent: the mark that follows it.
    func mark(after packet: OutputAudioPacket) -> PlayoutMark {
        hasQueuedAudio = true
        let samples = packet.position + packet.sampleCount
        return PlayoutMark(
            itemID: packet.itemID,
            milliseconds: packet.format.sampleRate.milliseconds(ofSamples: samples),
            generation: generation)
    }

    /// Whether a mark that came back shows how much was heard.
    func isCurrent(_ mark: PlayoutMark) -> Bool { mark.generation == generation }

    /// Audio is to be sent: whether the carrier must be told before.
    func takeOpening() -> Bool {
        defer { isOpen = true }
        return !isOpen
    }

    /// Sent audio is not to be heard. Returns whether the carrier must clear its queue.
    func takeClear() -> Bool {
        guard hasQueuedAudio else { return false }
        hasQueuedAudio = false
        isOpen = false
        generation &+= 1
        return true
    }

    /// Sent audio is not to be heard for now. Returns whether the carrier must pause its queue.
    func takePause() -> Bool {
        guard hasQueuedAudio, !isPaused else { return false }
        isPaused = true
        return true
    }

    /// Sent audio is to be heard again. Returns whether the carrier must end a pause.
    func takeContinuation() -> Bool {
        defer { isPaused = false }
        return isPaused
    }

    /// Notes whether the carrier's queue takes more audio.
    /// - Returns: whether that has changed.
    func note(hasRoom: Bool) -> Bool {
        defer { self.hasRoom = hasRoom }
        return hasRoom != self.hasRoom
    }

    // MARK: What is spoken elsewhere

    /// Whether the carrier speaks the reply's words itself.
    var speaksItself: Bool { call != nil && writer == nil }

    /// The session's language: whether the carrier must be told.
    func takeChange(of language: String?) -> Bool {
        guard let language, language != self.language else { return false }
        self.language = language
        return true
    }

    /// Takes more of the reply.
    /// - Returns: the text that the carrier is to speak now. It may be empty.
    func speak(_ words: String) -> String { speech.append(words) }

    /// Ends a message of the reply.
    /// - Returns: the rest of the text to speak.
    func endSpeaking() -> String { speech.finish() }

    /// Whether the words of a response are for the caller.
    func speaks(_ responseID: String) -> Bool { !unspoken.contains(responseID) }

    /// Notes that a response outside the conversation begins. A session has few of them at once.
    func begin(unspoken responseID: String) { unspoken.append(responseID) }

    /// A response is over.
    func end(unspoken responseID: String) { unspoken.removeAll { $0 == responseID } }

    // MARK: Keys

    /// A key was pressed.
    /// - Returns: the keys that become a turn now.
    func press(_ digit: Character, at now: Instant) -> String? {
        keypad?.press(digit, at: now)
    }

    /// The keys of a pause that is over.
    func takeKeys(at now: Instant) -> String? { keypad?.takeDue(at: now) }
}

/// Keys that the caller presses one after another. `#` or a pause ends them.
struct Keypad {
    /// The pause that ends them. 2 s, as of most menus.
    static let pause = Duration.seconds(2)
    /// The most keys of one turn. 32: more than any number that people enter.
    static let maxDigits = 32

    /// The keys so far.
    private(set) var digits = ""
    /// When the pause is over, or nil where no key waits.
    private(set) var due: Instant?

    /// A key was pressed.
    /// - Returns: the keys, where they end with this one.
    mutating func press(_ digit: Character, at now: Instant) -> String? {
        digits.append(digit)
        due = now + Self.pause
        return digit == "#" || digits.utf8.count >= Self.maxDigits ? take() : nil
    }

    /// The keys, where the pause is over.
    mutating func takeDue(at now: Instant) -> String? {
        guard let due, due <= now else { return nil }
        return take()
    }

    private mutating func take() -> String {
        defer { (digits, due) = ("", nil) }
        return digits
    }
}

extension OutputAudioPacket {
    /// Samples of the payload, at the format's rate.
    fileprivate var sampleCount: Int {
        switch format {
        case .pcm, .pcm8000, .pcm16000, .pcm48000, .pcmu, .pcma:
            payload.count / format.bytesPerSample
        case .opus: SampleRate.hz48000.samples(inMilliseconds: OpusPackets.packetMilliseconds)
        }
    }
}
