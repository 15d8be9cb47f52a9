// Whether the server of one connection still lives. After some silence it is asked, with a ping of
// WebSocket (RFC 6455 §5.5.2), which every server answers. The kernel alone would notice a lost
// network late, and would never notice it behind a middle box that acknowledges its packets.
//
// It reads no clock and sends nothing: times are seconds of one clock.

/// The signs of life of one connection.
struct SignsOfLife {
    /// The action that a silent connection needs.
    enum Need: Equatable {
        /// A ping is to be sent.
        case ping
        /// The connection is lost.
        case end
    }

    /// Seconds of silence after which the server is asked. 5: with the time for the answer, a loss shows
    /// within 10 s.
    static let longestSilence = 5.0
    /// Seconds that the answer may take.
    static let longestAnswer = 5.0

    private var heard: Double
    private var asked: Double?

    /// - Parameter now: when the connection has opened.
    init(at now: Double) { heard = now }

    /// When `need(at:)` must be asked, unless bytes come before.
    var due: Double { asked.map { $0 + Self.longestAnswer } ?? heard + Self.longestSilence }

    /// Bytes have come.
    mutating func noteBytes(at now: Double) { (heard, asked) = (now, nil) }

    /// The action that is needed now, once nothing more can be read. Nil means none. A ping is to
    /// be sent at once.
    mutating func need(at now: Double) -> Need? {
        guard now >= due else { return nil }
        guard asked == nil else { return .end }
        asked = now
        return .ping
    }
}
