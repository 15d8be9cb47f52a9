// What a session has that can be resumed: its handle, the events that its client may have missed, and
// until when it waits for a client that is away. Pure: time and randomness are arguments. The shard
// sends the events and moves the sockets.
//
//   attached ──detach──▶ away(until) ──attach──▶ attached
//                          └──until──▶ the session ends
//
// A pong acknowledges: what came before the ping has reached the client. So the log of a session in
// which nothing happens is empty, without an event of the client's.
//
// Invariant: a handle is good for twice the window, and is renewed each window. So the handle of a
// client that has just gone is good for as long as its session waits.

import Codec
import Session

/// How one session is resumed. Confined to its shard's thread.
final class ResumeState {
    /// Time after which a client that has not acknowledged an event is pinged. 1 s: the log of a
    /// reply stays short, and a ping a second costs less than one delta.
    static let acknowledgementInterval = Duration.seconds(1)
    /// Time before its end at which a session is announced to end. 30 s: enough to say so.
    static let warningTime = Duration.seconds(30)

    /// The handle's secret.
    private(set) var secret: ResumeSecret
    /// The one before it, for a client that has not got the new one.
    private var previous: ResumeSecret?
    /// The count that offsets are in.
    private(set) var epoch: UInt32
    private(set) var log = ResumeLog()
    /// When the handle is renewed.
    private var renewal: Instant
    /// Until when the session waits, or nil where its client is connected.
    private(set) var awayUntil: Instant?
    /// When the client is asked which events it has received. Nil where none is to be acknowledged,
    /// or it was asked.
    private var nextPing: Instant?
    /// Whether the client was told that its session ends.
    var isWarned = false
    /// Whether the session is still to be told that its client is away.
    private var isAwayNoticeDue = false

    /// The session's principal, as hexadecimal digits of a digest. Nil means that it is not known.
    var principal: String?
    /// The session's record in a store that outlives this process. Nil means that it has none.
    var stored: StoredSession?
    private let window: Duration

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(ResumeState.self)
    /// Bytes of the whole state.
    var heldBytes: Int {
        Self.objectBytes + log.heldBytes + principal.heapBytes + (stored?.heldBytes ?? 0)
    }

    /// - Parameters:
    ///   - random: bytes for the secret and the epoch: `randomByteCount`.
    ///   - window: how long the session waits for its client.
    init(random: [UInt8], window: Duration, at now: Instant) {
        secret = ResumeSecret(random.prefix(ResumeSecret.byteCount))
        epoch = Self.epoch(of: random.dropFirst(ResumeSecret.byteCount))
        self.window = window
        renewal = now + window
    }

    /// The state of a session that goes on from another process.
    /// - Parameters:
    ///   - random: bytes for the secret: `ResumeSecret.byteCount`.
    ///   - shown: the secret that the client has come with. It stays good until the next renewal: the
    ///     client may lose this connection before it has got the new one.
    ///   - log: the events that its client may have missed.
    init(
        random: [UInt8], shown: ResumeSecret, epoch: UInt32, log: ResumeLog, window: Duration,
        at now: Instant
    ) {
        secret = ResumeSecret(random)
        previous = shown
        (self.epoch, self.log, self.window) = (epoch, log, window)
        renewal = now + window
    }

    /// The secrets that are good, the newest first.
    var secrets: [ResumeSecret] { previous.map { [secret, $0] } ?? [secret] }

    /// Random bytes that a state takes.
    static let randomByteCount = ResumeSecret.byteCount + epochByteCount
    /// Random bytes that an epoch takes.
    static let epochByteCount = 4

    /// Not 0, which a client may use for "none".
    private static func epoch(of bytes: some Collection<UInt8>) -> UInt32 {
        max(1, bytes.reduce(0) { $0 << 8 | UInt32($1) })
    }

    // MARK: The handle

    /// Whether a secret is the session's.
    func accepts(_ other: ResumeSecret) -> Bool {
        secret == other || previous.map { $0 == other } ?? false
    }

    /// Until when the present handle is good.
    var expiry: Instant { renewal + window }

    /// Whether the handle is to be renewed: not while the client is away, which could not get it.
    func isRenewalDue(at now: Instant) -> Bool { awayUntil == nil && renewal <= now }

    /// Renews the handle.
    /// - Parameter random: `ResumeSecret.byteCount` bytes.
    func renew(_ random: [UInt8], at now: Instant) {
        previous = secret
        secret = ResumeSecret(random)
        renewal = now + window
        stored?.noteNewHandle(at: now)
    }

    // MARK: Events

    /// An event is sent, or would be if the client were there.
    func note(_ text: UnsafeRawBufferPointer, limit: Int, at now: Instant) {
        log.append(text, limit: limit)
        if nextPing == nil, !isAsked, awayUntil == nil {
            nextPing = now + Self.acknowledgementInterval
        }
    }

    /// The first event of a session is sent. It is not kept, because a client that has not got it has
    /// no handle.
    func noteFirst() { log.skip() }

    /// The last event that a ping has asked about; 0: none is under way.
    private var askedOffset: UInt64 = 0
    private var isAsked: Bool { askedOffset > 0 }

    /// Whether the client is to be asked which events it has received.
    func isPingDue(at now: Instant) -> Bool { nextPing.map { $0 <= now } ?? false }

    /// The payload of the ping that asks: the last event before it.
    func takePing() -> [UInt8] {
        nextPing = nil
        askedOffset = log.next - 1
        return Self.payload(of: askedOffset)
    }

    /// A pong has come; one that answers no ping of `takePing` changes nothing.
    func handlePong(_ payload: UnsafeRawBufferPointer, at now: Instant) {
        guard isAsked, payload.elementsEqual(Self.payload(of: askedOffset)) else { return }
        log.forget(through: askedOffset)
        askedOffset = 0
        nextPing = log.isEmpty ? nil : now + Self.acknowledgementInterval
    }

    private static func payload(of offset: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: offset >> UInt64(56 - 8 * $0)) }
    }

    // MARK: Away and back

    /// The client is away: the session waits.
    func detach(at now: Instant) {
        awayUntil = now + window
        isAwayNoticeDue = true
        nextPing = nil
        askedOffset = 0
    }

    /// Whether the session must now be told that its client is away. True once for each time.
    func takeClientAwayNotice() -> Bool {
        defer { isAwayNoticeDue = false }
        return isAwayNoticeDue
    }

    /// The client is back.
    /// - Returns: whether the events that it has missed are here.
    func attach(from position: ResumePosition?, at now: Instant) -> Bool {
        awayUntil = nil
        nextPing = nil
        askedOffset = 0
        guard let position, position.epoch == epoch, log.covers(position.offset) else {
            return false
        }
        log.forget(through: position.offset)
        if !log.isEmpty { nextPing = now + Self.acknowledgementInterval }
        return true
    }

    /// Events were lost: offsets count anew.
    /// - Parameter random: `epochByteCount` bytes.
    func beginEpoch(_ random: [UInt8]) {
        epoch = Self.epoch(of: random)
        log = ResumeLog()
    }

    /// When the shard must look at it next.
    func deadline(sessionEnd: Instant?) -> Instant {
        if let awayUntil {
            // At the time of the loss: at once.
            if isAwayNoticeDue { return awayUntil + (.zero - window) }
            return min(awayUntil, stored?.deadline ?? awayUntil)
        }
        var due = nextPing.map { min($0, renewal) } ?? renewal
        if let change = stored?.deadline { due = min(due, change) }
        if !isWarned, let sessionEnd {
            due = min(due, sessionEnd + (.zero - Self.warningTime))
        }
        return due
    }
}
