// The memory of one connection, by part. A ledger is a value that is read off the objects on
// demand. Nothing is counted at allocation, so no path pays for it and no release can be missed.
// Every type states its bytes (`heapBytes`, or what it adds to a ledger), with the allocator's
// rounding (Codec/HeapBlock).
//
// Per connection only the total is kept, which the shard settles after each tick
// (Server/ShardLedger). Memory of C libraries cannot be read off an object; their allocators' hooks
// count it.
//
// Invariant: a part is never negative, and shared memory is in one part, once.

/// The part of a ledger that memory is booked on. The raw values are the names in the admin view.
public enum MemoryPart: String, CaseIterable, Sendable {
    /// The connection itself: its object, its slots in the shard's tables and queues, HTTP's state.
    case connection
    /// Bytes that came and are not used yet: an unfinished message, messages for another tick.
    case receive
    /// Output that waits for the socket.
    case send
    /// OpenSSL's state, and records that wait.
    case tls
    /// Contexts of permessage-deflate.
    case compression
    /// The session itself: its object, its settings, tools and their servers.
    case session
    /// Decoder, encoder, resampler.
    case codec
    /// Voice activity, prosody, noise reduction, the reply's echo.
    case listening
    /// The user's audio that no item has taken, or that is being recognised.
    case inputAudio = "input_audio"
    /// Items with their text, and audio that is kept beside them.
    case conversation
    /// Responses in flight, their speech, and audio that may be sent again; for a text request the
    /// reply that the client reads.
    case response
    /// Agents' tasks in flight, with their requests.
    case task
    /// Transfers from and to models and services.
    case upstream
}

/// Bytes by part.
public struct MemoryLedger: Equatable, Sendable {
    /// Bytes of `MemoryPart.connection`.
    public var connection = 0
    /// Bytes of `MemoryPart.receive`.
    public var receive = 0
    /// Bytes of `MemoryPart.send`.
    public var send = 0
    /// Bytes of `MemoryPart.tls`.
    public var tls = 0
    /// Bytes of `MemoryPart.compression`.
    public var compression = 0
    /// Bytes of `MemoryPart.session`.
    public var session = 0
    /// Bytes of `MemoryPart.codec`.
    public var codec = 0
    /// Bytes of `MemoryPart.listening`.
    public var listening = 0
    /// Bytes of `MemoryPart.inputAudio`.
    public var inputAudio = 0
    /// Bytes of `MemoryPart.conversation`.
    public var conversation = 0
    /// Bytes of `MemoryPart.response`.
    public var response = 0
    /// Bytes of `MemoryPart.task`.
    public var task = 0
    /// Bytes of `MemoryPart.upstream`.
    public var upstream = 0

    /// Nothing.
    public init() {}

    /// The bytes of a part.
    public subscript(part: MemoryPart) -> Int {
        get { self[keyPath: Self.place(of: part)] }
        set { self[keyPath: Self.place(of: part)] = newValue }
    }

    /// The bytes of all parts.
    public var total: Int {
        connection + receive + send + tls + compression + session + codec + listening + inputAudio
            + conversation + response + task + upstream
    }

    /// Part by part.
    public static func + (one: MemoryLedger, other: MemoryLedger) -> MemoryLedger {
        one.combined(with: other, +)
    }

    /// Part by part.
    public static func - (one: MemoryLedger, other: MemoryLedger) -> MemoryLedger {
        one.combined(with: other, -)
    }

    /// Part by part.
    public static func += (one: inout MemoryLedger, other: MemoryLedger) { one = one + other }

    /// Part by part.
    public static func -= (one: inout MemoryLedger, other: MemoryLedger) { one = one - other }

    private func combined(
        with other: MemoryLedger, _ combine: (Int, Int) -> Int
    ) -> MemoryLedger {
        var result = self
        for part in MemoryPart.allCases { result[part] = combine(self[part], other[part]) }
        return result
    }

    private static func place(of part: MemoryPart) -> WritableKeyPath<MemoryLedger, Int> {
        switch part {
        case .connection: \.connection
        case .receive: \.receive
        case .send: \.send
        case .tls: \.tls
        case .compression: \.compression
        case .session: \.session
        case .codec: \.codec
        case .listening: \.listening
        case .inputAudio: \.inputAudio
        case .conversation: \.conversation
        case .response: \.response
        case .task: \.task
        case .upstream: \.upstream
        }
    }
}
