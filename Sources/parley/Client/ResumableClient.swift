// A connection to a realtime server that is made again when it breaks, where the server lets its client
// come back to the session. ResumePlace knows the place in the session. The caller knows what the
// events mean, and what must be sent again.
//
// The session is asked for with `resume=true` in the query. A server of the protocol that does not know
// the parameter ignores it; its session has no handle, and ends with its connection. A server that
// refuses the parameter is asked without it.

import Codec
import Glibc

/// One session, over one connection after another.
final class ResumableClient {
    private let url: RealtimeURL
    private let key: String?
    private let trust: ServerTrust
    private var client: RealtimeClient
    private var place = ResumePlace()
    /// The attempts since the connection was lost, until the server has answered one.
    private var attempts: ReturnAttempts?
    private var lastReturn: ResumePlace.Return?

    /// Seconds without a connection so far. Events that are sent in that time are dropped.
    private(set) var secondsAway = 0.0
    /// Is called when the connection is lost and will be made again.
    var onLoss: () -> Void = {}
    /// The audio that does not have to be sent again. Nil means that none came.
    var playedAudio: () -> ResumePlace.Played? = { nil }

    /// Whether the session can be resumed.
    var canComeBack: Bool { place.isGranted }
    /// Whether a message can be received without waiting.
    var hasMessage: Bool { client.hasMessage }

    /// Connects, and returns once the server has accepted.
    /// - Parameters:
    ///   - key: sent as a bearer token. Nil means that none is.
    ///   - asks: whether to ask for a session that can be resumed.
    /// - Throws: a `CommandFailure` that names the server and the reason.
    init(
        url: RealtimeURL, key: String?, trust: ServerTrust, asks: Bool
    ) throws(CommandFailure) {
        (self.url, self.key, self.trust) = (url, key, trust)
        do throws(CommandFailure) {
            let first = asks ? url.adding([("resume", "true")]) : url
            client = try RealtimeClient(url: first, key: key, trust: trust)
        } catch {
            guard asks, error.httpStatus == 400 else { throw error }
            client = try RealtimeClient(url: url, key: key, trust: trust)
        }
    }

    /// Sends an event. It is dropped where the connection is lost and will be made again.
    /// - Throws: a `CommandFailure` when the connection is lost for good.
    func send(
        event type: String, _ writeMembers: (inout JSONWriter) -> Void = { _ in }
    ) throws(CommandFailure) {
        try unlessLost { () throws(CommandFailure) in
            try client.send(event: type, writeMembers)
        }
    }

    /// Sends a packet of audio as a binary message. It is dropped under the same conditions as
    /// events.
    /// - Throws: a `CommandFailure` when the connection is lost for good.
    func send(binary packet: [UInt8]) throws(CommandFailure) {
        try unlessLost { () throws(CommandFailure) in try client.send(binary: packet) }
    }

    /// The loss itself shows when the connection is read: a Close that says why may have come before.
    private func unlessLost(
        _ body: () throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        do throws(CommandFailure) { try body() } catch {
            if !place.isGranted { throw error }
        }
    }

    /// Waits for the next message until a time on `monotonicSeconds()`; nil when none came. A lost
    /// connection is made again, which may take longer.
    /// - Throws: a `CommandFailure` when the connection is lost for good.
    func receive(until deadline: Double) throws(CommandFailure) -> ServerMessage? {
        while true {
            do throws(CommandFailure) {
                guard let message = try client.receive(until: deadline) else { return nil }
                if case .event(let type, let body, _) = message,
                    let back = place.handle(type: type, body: body)
                {
                    lastReturn = back
                    attempts = nil
                }
                return message
            } catch { try reconnect(after: error) }
        }
    }

    /// Waits until a message can be received, another descriptor can be read, or until a time. A
    /// lost connection is made again, which may take longer.
    /// - Returns: whether the other descriptor can be read.
    /// - Throws: a `CommandFailure` when the connection is lost for good.
    func wait(alsoFor other: Int32?, until deadline: Double) throws(CommandFailure) -> Bool {
        do throws(CommandFailure) {
            return try client.wait(alsoFor: other, until: deadline)
        } catch {
            try reconnect(after: error)
            return false
        }
    }

    /// The return that the message received last has reported. A second call gets nil.
    func takeReturn() -> ResumePlace.Return? {
        defer { lastReturn = nil }
        return lastReturn
    }

    /// Makes the connection again.
    /// - Throws: `failure` where the session has ended with its connection, or the reason for which the
    ///   server cannot be reached.
    private func reconnect(after failure: CommandFailure) throws(CommandFailure) {
        guard place.isGranted, client.end?.allowsReturn == true else { throw failure }
        let lost = monotonicSeconds()
        if attempts == nil {
            attempts = ReturnAttempts(from: lost, patience: place.patience(at: time(nil)))
            onLoss()
        }
        var reason = failure
        while let pause = attempts?.nextPause(
            at: monotonicSeconds(), random: .random(in: 0..<1))
        {
            usleep(UInt32(pause * 1e6))
            try Interruption.check()
            do throws(CommandFailure) {
                client = try RealtimeClient(
                    url: url.adding(place.query(playedAudio())), key: key, trust: trust)
                secondsAway += monotonicSeconds() - lost
                return
            } catch {
                guard error.isTemporary else { throw error }
                reason = error
            }
        }
        throw CommandFailure(
            description: "the connection is lost, and could not be made again: "
                + reason.description)
    }
}

extension ConnectionEnd {
    /// Whether the session waits for its client. A Close ends it, except for the Close of a server
    /// that restarts.
    fileprivate var allowsReturn: Bool {
        switch self {
        case .lost: true
        case .closed(let code): code == .serviceRestart
        }
    }
}

extension CommandFailure {
    /// Whether another attempt to connect may succeed: not where the same request would be refused
    /// again, and not after a signal.
    fileprivate var isTemporary: Bool {
        guard status == 1 else { return false }
        guard let httpStatus else { return true }
        return !(400..<500).contains(httpStatus) || [408, 425, 429].contains(httpStatus)
    }
}
