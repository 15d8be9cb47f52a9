// How a session's last turn went, small enough to be kept of every session: three numbers of two
// bytes. The histograms have all turns (Metrics); this is for a look at one session.

import Codec
import Session

/// Hops of the last turn in milliseconds. All count from the end of the user's speech; the first
/// token of a typed turn counts from the request.
struct TurnLatencies: Equatable, Sendable {
    /// The value of a hop that has not been reached.
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

    /// Milliseconds until the reply began, as far as it came: its audio, or otherwise its first
    /// token.
    var milliseconds: Int? { self[.firstAudio] ?? self[.firstToken] }

    /// Notes when a hop was reached.
    mutating func note(_ hop: TurnHop, _ duration: Duration) {
        let value = UInt16(clamping: min(duration.wholeMilliseconds, Int(Self.unknown) - 1))
        switch hop {
        case .transcript: transcript = value
        case .firstToken: firstToken = value
        case .firstAudio: firstAudio = value
        }
    }
}

extension TurnLatencies {
    /// As agents get it.
    var times: TurnTimes {
        TurnTimes(
            transcript: self[.transcript], firstToken: self[.firstToken],
            firstAudio: self[.firstAudio])
    }
}
