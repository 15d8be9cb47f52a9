// The seam between sessions and the protocols of their clients. A front turns the messages of one client
// into inputs of its session, and the session's outputs into messages. It decides the form of audio, of
// marks and of clearing, and which events a client of its kind gets. It takes no turn and processes no
// audio; it knows no socket and no shard, only what FrontHost lists.
//
// A new protocol is a class here, in a folder of its own, and an entry in the table of routes. The
// Realtime protocol has no object for each client, because there is no state that would be in it: an
// idle session would pay 48 bytes. Its front is RealtimeFront.swift.

import Codec
import Logging
import Session

/// The front of one client, on one connection. Confined to its shard's thread.
protocol Front: AnyObject {
    /// The subprotocol that is selected where the client offers it.
    var subprotocol: String { get }
    /// The telephone call of its session. Nil where there is no call, or it has not begun.
    var call: TelephoneCall? { get }
    /// When it must be handled although no bytes come, or nil where it never must.
    var deadline: Instant? { get }
    /// Bytes of the object, and of what hangs off it.
    var heldBytes: Int { get }

    /// Sets what the protocol decides in a session: the formats of its audio, whether it speaks.
    func adapt(_ parameters: inout SessionParameters)
    /// A whole message of the client has come.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    func receive(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection,
        _ host: any FrontHost
    ) -> Int
    /// The session shows an event.
    func show(_ event: ServerEvent, on connection: Connection, _ host: any FrontHost)
    /// The session has audio of a reply for the client.
    func play(_ packet: OutputAudioPacket, on connection: Connection, _ host: any FrontHost)
    /// Sends the client a command for the audio that it has.
    func tell(_ command: PlaybackCommand, on connection: Connection, _ host: any FrontHost)
    /// The deadline has come.
    func handleDeadline(of live: LiveSession, _ host: any FrontHost)
    /// An event of another that has joined the session, without what this front decides itself.
    func admit(_ event: ClientEvent) -> ClientEvent
    /// The server ends the connection: sends the protocol's last message before the Close.
    func hangUp(_ connection: Connection, _ host: any FrontHost)
    /// The connection, or its part in the session, has ended.
    func end(on connection: Connection, _ host: any FrontHost)
}

/// Most protocols need no more than messages both ways.
extension Front {
    var call: TelephoneCall? { nil }
    var deadline: Instant? { nil }
    func adapt(_ parameters: inout SessionParameters) {}
    func tell(_ command: PlaybackCommand, on connection: Connection, _ host: any FrontHost) {}
    func handleDeadline(of live: LiveSession, _ host: any FrontHost) {}
    func admit(_ event: ClientEvent) -> ClientEvent { event }
    func hangUp(_ connection: Connection, _ host: any FrontHost) {}
    func end(on connection: Connection, _ host: any FrontHost) {}
}

/// Makes the front of a connection that is about to become a WebSocket.
typealias FrontMaker = @Sendable (_ seeker: PlaceSeeker) -> any Front

/// The calls that a front may make to its shard.
protocol FrontHost: AnyObject {
    /// The time of this tick.
    var now: Instant { get }
    /// The model of a session whose client names none.
    var defaultModel: String { get }
    var metrics: ShardMetrics { get }
    var logger: Logger { get }
    var sessionContext: SessionContext { get }

    // MARK: The session

    /// Takes a place within the limits of the caller and of the server.
    func reservePlace(
        for seeker: PlaceSeeker, to asked: SessionParameters, isMoved: Bool
    ) throws(PlaceRefusal) -> SessionPlaceHeld
    /// Counts a session in its caller's quota; releases the place where it is used up.
    func countConnection(
        of seeker: PlaceSeeker, at place: SessionPlaceHeld
    ) throws(PlaceRefusal)
    /// No session takes the place.
    func release(_ place: SessionPlaceHeld)
    /// Counts and logs a refusal, and makes its answer.
    func answer(to refusal: PlaceRefusal, of seeker: PlaceSeeker) -> HTTPResponse
    /// The agent of a session, by a name, or otherwise by a called number.
    func profile(
        named name: String?, orOfNumber number: String?, for caller: Caller
    ) throws(RefusalReason) -> AgentProfile?
    /// Gives the connection a new session, which is to be started.
    func openSession(
        _ parameters: SessionParameters, in dialect: RealtimeDialect, at place: SessionPlaceHeld,
        on connection: Connection
    ) -> LiveSession
    /// The session is recorded from now on, where records are kept.
    func beginRecord(
        of session: VoiceSession, fence: UInt64, owner: SessionOwner, call: TelephoneCall?)
    /// The user agrees to a recording, or does not.
    func handleRecordingConsent(_ consent: Bool, of live: LiveSession)
    /// Reads an event of the Realtime protocol.
    func parseEvent(
        _ text: [UInt8]
    ) throws(ClientEventError) -> (event: ClientEvent, wishes: ClientWishes)

    // MARK: In

    /// Gives a session an input, and does all that belongs to one.
    func step(_ live: LiveSession, _ input: (VoiceSession) -> Void)
    /// A packet of the user's audio, in the session's input format.
    /// - Parameter number: the packet's, where the client numbers them.
    func handleAudio(
        _ packet: UnsafeRawBufferPointer, number: UInt16?, of live: LiveSession,
        on connection: Connection)
    /// Whether another input of the user may be handled. It counts as an event.
    func admitsEvent(of live: LiveSession) -> Bool
    /// Shows an event to all who see the session.
    func show(_ event: ServerEvent, of live: LiveSession)
    /// The deadline or the charge of the session, or of its front, may have changed.
    func review(_ live: LiveSession)
    /// Charges a message that costs the client nothing to the budget of such messages.
    /// - Returns: false where the connection is being closed.
    @discardableResult
    func spendFloodBudget(_ count: Int, of connection: Connection) -> Bool
    /// Spends the connection's budget of work.
    /// - Returns: the messages that this one counts as in the tick's share.
    func spendWork(_ units: Int, byteCount: Int?, of connection: Connection) -> Int

    // MARK: Out

    /// Sends a message, unless nothing is written.
    func send(
        as opcode: WebSocketOpcode, on connection: Connection, _ write: (inout ByteWriter) -> Void)
    /// Puts a message into the send buffer, unless nothing is written. `admitAudio` sends it.
    func queue(
        as opcode: WebSocketOpcode, on connection: Connection, _ write: (inout ByteWriter) -> Void)
    /// Sends the audio that was queued since `start`. It is dropped as one message where it would
    /// come too late.
    /// - Parameter start: how much waited in the send buffer before it, in bytes.
    func admitAudio(from start: Int, _ packet: OutputAudioPacket, on connection: Connection)
    /// Sends a Close.
    func closeWebSocket(
        _ connection: Connection, _ code: WebSocketCloseCode, reason: StaticString)
}

extension FrontHost {
    /// Handles an event that the front sends in the client's place.
    func take(_ event: ClientEvent, of live: LiveSession) {
        step(live) { $0.handle(event, eventID: nil, audio: RawSpan(), at: now) }
    }
}
