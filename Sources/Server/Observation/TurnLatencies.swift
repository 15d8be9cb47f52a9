// How a session's last turn went, small enough to be kept of every session: three numbers of two
// bytes. The histograms have all turns (Metrics); this is for a look at one session.

import Codec
import Session

/// Hops of the last turn in milliseconds. All count from the end of the user's speech; the first
/// token of a typed turn counts from the request.
struct TurnLatencies: Equatable, Sendable {
    /// Stands for a hop that has not been reached.
    private static let unknown = UInt16.max

    private var transcript = TurnLatencies.unknown
    private var firstToken = TurnLatencies.unknown
    private var firstAudio = TurnLatencies.unknown

    /// Milliseconds until a hop, at most 65,534; nil where it has not been reached.
    subscript(hop: TurnHop) -> Int? {
        let value =
            switch hop {
            case .transcript: transcript
            case .firstToken: firstToken
            case .firstAudio: firstAudio
            }
        return value == Self.unknown ? nil : Int(value)
    }

    /// Milliseconds until the reply began, as far as it came: its audio, or else its first token.
    var milliseconds: Int? { self[.firstAudio] ?? self[.firstToken] }

    /// A hop was reached.
    mutating func note(_ hop: TurnHop, _ duration: Duration) {
        let value = UInt16(clamping: min(duration.wholeMilliseconds, Int(Self.unknown) - 1))
        switch hop {
        case .transcript: transcript = value
        case .firstToken: firstToken = value
        case .firstAudio: firstAudio = value
        }
    }
}

extension LiveSession {
    /// An event goes out that may begin a turn: words to be answered, or a response without any. A
    /// response after the first token of another answers something new. One that has ended has used
    /// tokens.
    func noteTurn(_ event: ServerEvent, at now: Instant) {
        switch event {
        case .inputAudioBufferCommitted: beginTurn()
        case .responseCreated:
            if lastTurn[.firstToken] != nil { beginTurn() }
            turns &+= 1
        case .responseDone(let response): grant?.quotas?.noteEnd(of: response, at: now)
        default: break
        }
    }

    private func beginTurn() {
        if lastTurn[.firstToken] != nil { work.tools?.answeredTurn = lastTurn }
        lastTurn = TurnLatencies()
    }
}

extension Shard {
    /// The facts that an agent may know of its session. Nil: it has ended, or is over HTTP.
    func facts(of token: EventToken) -> SessionFacts? {
        guard let live = sessions[token], textRequests[token] == nil else { return nil }
        let bytes = live.connection?.charged ?? waiting[token]?.charge.bytes ?? 0
        return SessionFacts(
            openSessions: services.metrics.sessions.load(ordering: .relaxed),
            bytes: Int(bytes), answeredTurn: live.work.tools?.answeredTurn?.times)
    }
}

extension TurnLatencies {
    /// As agents get it.
    fileprivate var times: TurnTimes {
        TurnTimes(
            transcript: self[.transcript], firstToken: self[.firstToken],
            firstAudio: self[.firstAudio])
    }
}
