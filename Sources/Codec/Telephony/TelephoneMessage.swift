// The messages of carriers as values that are the same for all of them. TelephoneParser makes them;
// Server/Telephony acts on them.

/// Limits of what a carrier says about a call. They bound the memory that a line takes.
public enum TelephoneLimits {
    /// Bytes of an id, a number or the name of a parameter. 256: ids of carriers have up to 100.
    public static let maxNameBytes = 256
    /// The application's parameters of one call. 64: carriers pass on far fewer.
    public static let maxParameters = 64
    /// Bytes of the names and values of all of them. 32 KiB: instructions may be among them.
    public static let maxParameterBytes = 32 << 10
    /// Bytes of a mark's name. 64: those that are sent have fewer.
    public static let maxMarkBytes = 64
    /// The most bytes of a caller's words in one prompt. 64 KiB: hours of speech.
    public static let maxPromptBytes = 64 << 10
}

/// The facts of a call.
public struct TelephoneCall: Equatable, Sendable {
    /// The carrier that connected it.
    public var carrier: TelephoneCarrier
    /// The carrier's name for the call; empty where it has none.
    public var callID = ""
    /// The carrier's name for the stream of media, which answers must name. Empty where it has
    /// none.
    public var streamID = ""
    /// The caller's number, if it is known.
    public var from: String?
    /// The number that was called, if it is known.
    public var to: String?
    /// The application's own parameters, in the order of the message.
    public var parameters: [TelephoneParameter] = []

    /// A call without any fact.
    public init(carrier: TelephoneCarrier) { self.carrier = carrier }

    /// The value of a parameter; of several with one name the last one counts.
    public func parameter(_ name: String) -> String? {
        parameters.last { $0.name == name }?.value
    }

    /// Adds a parameter.
    /// - Throws: `tooLong`, at the limits of all parameters.
    mutating func add(_ name: String, _ value: String) throws(TelephoneError) {
        let bytes = parameters.reduce(name.utf8.count + value.utf8.count) {
            $0 + $1.name.utf8.count + $1.value.utf8.count
        }
        guard parameters.count < TelephoneLimits.maxParameters,
            name.utf8.count <= TelephoneLimits.maxNameBytes,
            bytes <= TelephoneLimits.maxParameterBytes
        else { throw .tooLong(.init("parameters")) }
        parameters.append(TelephoneParameter(name, value))
    }

    /// Checks the names that the carrier gave: they stand in logs, records, pages and header
    /// fields.
    /// - Throws: `name`, where an id has a character that no id of the carrier has, or a number of
    ///   the call has a control character.
    func checkNames() throws(TelephoneError) {
        guard carrier.isIdentifier(callID) else { throw .name(.init("call id")) }
        guard carrier.isIdentifier(streamID) else { throw .name(.init("stream id")) }
        for number in [from, to].compactMap(\.self) {
            guard number.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control })
            else { throw .name(.init("number")) }
        }
    }

    /// Heap bytes of its texts.
    public var heapBytes: Int {
        parameters.reduce(
            callID.heapBytes + streamID.heapBytes + from.heapBytes + to.heapBytes
                + parameters.heapBytes
        ) { $0 + $1.name.heapBytes + $1.value.heapBytes }
    }
}

/// A parameter that an application has given to a call.
public struct TelephoneParameter: Equatable, Sendable {
    /// Its name.
    public var name: String
    /// Its value.
    public var value: String

    /// Creates a parameter.
    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// The beginning of a call.
public struct TelephoneStart: Equatable, Sendable {
    /// The facts of the call.
    public var call: TelephoneCall
    /// How its audio is encoded, or nil where no audio comes: the carrier recognises and speaks.
    public var coding: LineCoding?
    /// Whether Asterisk wants its commands as plain text, not as JSON.
    public var usesPlainText = false

    /// Creates the beginning of a call.
    public init(call: TelephoneCall, coding: LineCoding?) {
        self.call = call
        self.coding = coding
    }
}

/// One message of a carrier.
public enum TelephoneMessage: Equatable, Sendable {
    /// The call has begun.
    indirect case started(TelephoneStart)
    /// Audio of the caller, which is in the parser's `audio` until its next call. `chunk` is its
    /// number in the stream, where the carrier numbers it.
    case media(chunk: Int?)
    /// The caller has pressed a key: one of `0…9`, `*`, `#`, `A…D`.
    case digit(Character)
    /// All audio before a mark was played, or dropped by a `clear`.
    case played(mark: PlayoutMark)
    /// The carrier's queue of audio is full (false), or has room again (true).
    case queue(hasRoom: Bool)
    /// The caller has said this; `isLast`: and has finished.
    case prompt(String, isLast: Bool)
    /// The caller has spoken over the reply, of which these words were heard.
    case interrupted(heard: String)
    /// The call has ended.
    case stopped
    /// The carrier has refused something. The text is its own.
    case failed(String)
    /// A message without a meaning here, such as a status, or an event of a later version.
    case other
}

/// The rule that a carrier's message breaks. Messages after such a message are still read.
public enum TelephoneError: Error, Equatable, Sendable {
    case notJSON
    case notAnObject
    /// A member that the message needs is missing or of another type.
    case missing(StaticName)
    /// `media` whose payload is no base64.
    case payload
    /// A text or a list is longer than `TelephoneLimits` allow.
    case tooLong(StaticName)
    /// An id or a number of the call has a character that is not allowed in it.
    case name(StaticName)
    /// This server has no codec for the line's audio.
    case coding(String)

    /// The name of a member, for a log.
    public struct StaticName: Equatable, Sendable, CustomStringConvertible {
        /// The name.
        public let description: String
        init(_ name: StaticString) { description = "\(name)" }
    }
}

/// A place in the audio of a reply, as the name of a mark has it. The name has the item, how many
/// milliseconds of it end there, and the generation of the line's queue. Each `clear` raises the
/// generation.
public struct PlayoutMark: Equatable, Sendable {
    /// The item.
    public var itemID: String
    /// Milliseconds of the item's audio.
    public var milliseconds: Int
    /// How often the line had been cleared when the mark was sent.
    public var generation: UInt32

    /// Creates a mark.
    public init(itemID: String, milliseconds: Int, generation: UInt32) {
        self.itemID = itemID
        self.milliseconds = milliseconds
        self.generation = generation
    }

    /// Reads the name of a mark, or returns nil where it is not one of this server's.
    public init?(name: String) {
        let parts = name.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, let milliseconds = Int(parts[1]),
            milliseconds >= 0, let generation = UInt32(parts[2])
        else { return nil }
        self.init(
            itemID: String(parts[0]), milliseconds: milliseconds, generation: generation)
    }

    /// Its name on the wire: `item_4Nd…:1200:3`.
    public var name: String { "\(itemID):\(milliseconds):\(generation)" }
}
