// Thousands of sessions on one epoll and one timer wheel: a worker process's share of a scenario.
// This file has their life cycle (connecting, becoming ready, being lost, closing); Crowd+Actions
// has their actions in between. The load is an open loop: actions are due by the clock, whatever
// the server does, and every latency counts from the time at which the action was due.
//
// Invariant: `open` is the number of sessions that are `ready`. A session has a connection exactly
// in the phases `opening` and `ready`.

import CLinux
import Codec

/// A worker's sessions.
final class Crowd {
    /// Time limit for a session to become ready.
    static let patience: Int64 = 30_000_000_000
    /// Most errors that are counted separately.
    private static let maxErrorKinds = 24

    let order: WorkerOrder
    let scenario: Scenario
    let speech: SpokenLoop?
    let wheel: TimerWheel
    let parser = JSONParser()
    private let servers: [LoadServer]
    private let epoll: Int32
    private(set) var sessions: [LoadSession] = []
    var counts = LoadCounts()
    var latencies: LatencyRecorder
    var random: SplitMix64
    private(set) var errors: [String: Int] = [:]
    private(set) var open = 0
    /// Sessions that are neither ready nor lost yet.
    private(set) var unsettled: Int
    /// The measured part, once the parent has set it.
    private(set) var window: Range<Int64>?
    /// The part of `window` after the ramp, in which all turns are in flight. Deltas sent in it are
    /// measured.
    private(set) var steady: Range<Int64>?
    /// Turns that have begun and not ended.
    var turnsInFlight = 0
    /// The message of echoes; only its time stamp changes.
    var message: [UInt8]
    private let buffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 256 << 10, alignment: 16)

    /// Prepares the sessions, which connect at their scheduled times.
    /// - Parameter epoll: the loop's epoll, whose tokens are the sessions' indices.
    /// - Throws: `LoadFailure` when a server's address or the recording cannot be used.
    init(_ order: WorkerOrder, epoll: Int32) throws(LoadFailure) {
        self.order = order
        self.epoll = epoll
        scenario = order.scenario
        var servers: [LoadServer] = []
        for url in order.urls {
            servers.append(
                try LoadServer(ServerAddress(url, path: order.scenario.standardPath)))
        }
        self.servers = servers
        let roles = order.scenario.roles
        speech =
            roles.speaking == 0
            ? nil
            : try SpokenLoop(path: order.recording, pause: .seconds(order.scenario.pause))
        random = SplitMix64(state: order.scenario.seed &+ UInt64(order.worker) &* 0x9E37)
        message = (0..<order.scenario.messageBytes).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        latencies = LatencyRecorder(watching: LatencyKind.main(of: order.scenario.kind).first)
        wheel = TimerWheel(now: monotonicNanoseconds())
        unsettled = 0
        let shares = stride(from: order.worker, to: order.scenario.sessions, by: order.workers)
        for number in shares {
            let offset = Int64(Double(number) * 1e9 / order.scenario.connectRate)
            let session = LoadSession(
                index: sessions.count, role: Self.role(of: number, roles, scenario),
                server: number % servers.count, begun: TimerWheel.rounded(order.start + offset))
            sessions.append(session)
            wheel.set(session.index, at: session.begun)
        }
        unsettled = sessions.count
    }

    deinit { buffer.deallocate() }

    private static func role(
        of number: Int, _ roles: Scenario.Roles, _ scenario: Scenario
    ) -> LoadSession.Role {
        if number < roles.slow { return .slow }
        if number < roles.slow + roles.speaking { return .voice }
        if number < roles.slow + roles.speaking + roles.chatting { return .chat }
        return scenario.isEcho ? .echo : .idle
    }

    // MARK: The loop's calls

    /// Handles a socket's events.
    func handle(_ index: Int, _ events: UInt32) {
        let session = sessions[index]
        guard let connection = session.connection else { return }
        let before = connection.state
        if events & EPOLLOUT.rawValue != 0 || before == .connecting { connection.handleWritable() }
        if before == .connecting, !connection.state.isFailed, connection.state != .connecting {
            latencies.record(.connect, monotonicNanoseconds() - session.begun)
        }
        if session.role == .slow, session.phase == .ready {
            // A slow reader reads nothing; only the end of its connection is noticed.
            let isOver = events & (EPOLLERR.rawValue | EPOLLHUP.rawValue | EPOLLRDHUP.rawValue) != 0
            if isOver { endSlow(session) }
            return
        }
        let arrived = monotonicNanoseconds()
        if events & ~EPOLLOUT.rawValue != 0, before != .connecting {
            connection.receive(into: buffer) { handle($0, of: session) }
        }
        if connection.state == .open, before != .open {
            latencies.record(.upgrade, arrived - session.begun)
            if scenario.isEcho { becomeReady(session) }
        }
        if case .failed(let reason) = connection.state {
            lose(session, reason)
        } else if session.connection === connection {
            watchForWritability(session)
        }
    }

    /// Carries out everything that is due.
    func fire(at now: Int64) {
        for index in wheel.expire(at: now) {
            let session = sessions[index]
            switch session.phase {
            case .waiting: connect(session)
            case .opening:
                if scenario.kind == .churn, window != nil {
                    countError("a session was not ready within its life")
                    leave(session, at: session.nextDue)
                } else {
                    lose(session, "not ready within 30 s")
                }
            case .ready: act(session, at: now)
            case .gone: break
            }
        }
    }

    /// Begins the measured part.
    func begin(_ window: Range<Int64>) {
        self.window = window
        let ramp = Int64(scenario.rampSeconds * 1e9)
        if ramp > 0 {
            steady = min(window.lowerBound + ramp, window.upperBound)..<window.upperBound
        }
        // These kinds measure only sessions that are opened during the measured part.
        if scenario.kind == .churn || scenario.kind == .reconnect { latencies.reset() }
        for session in sessions where session.phase == .ready { schedule(session) }
    }

    /// Counts the turns that were due but have not begun, because the turn before was still in
    /// flight.
    func countOverdue() {
        counts.turnsNeverBegun = sessions.reduce(0) { $0 + ($1.chat?.overdue.count ?? 0) }
    }

    /// Ends all sessions.
    func end() {
        for session in sessions {
            wheel.cancel(session.index)
            if session.role != .slow { session.connection?.sendClose() }
            session.connection = nil
            session.phase = .gone
        }
        open = 0
    }

    /// Reads the slow readers' sockets, to find out which of them the server has closed.
    func readSlowReaders() {
        for session in sessions where session.role == .slow && session.phase == .ready {
            guard let connection = session.connection else { continue }
            for _ in 0..<64 {
                let count = recv(
                    connection.descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
                if count > 0 { continue }
                if count == 0 || parley_errno() != EAGAIN { endSlow(session) }
                break
            }
        }
    }

    // MARK: Life cycle

    private func connect(_ session: LoadSession) {
        let now = monotonicNanoseconds()
        latencies.record(.generatorLateness, now - session.begun)
        counts.begun += 1
        do throws(LoadFailure) {
            let connection = try LoadConnection(
                to: servers[session.server], offset: order.worker * 8_000,
                receiveBytes: session.role == .slow ? 4_096 : nil,
                query: scenario.resume ? session.place?.query ?? "resume=true" : nil)
            session.connection = connection
            session.phase = .opening
            session.watchesWritability = true
            let isLate = scenario.kind == .churn && window != nil
            wheel.set(session.index, at: isLate ? session.nextDue : now + Self.patience)
            let events = EPOLLIN.rawValue | EPOLLOUT.rawValue
            guard
                parley_epoll_control(
                    epoll, EPOLL_CTL_ADD, connection.descriptor, events, UInt64(session.index))
                    == 0
            else { throw .system("epoll_ctl") }
        } catch {
            session.phase = .opening
            lose(session, error.reason)
        }
    }

    /// The session is configured and can begin its work.
    func becomeReady(_ session: LoadSession) {
        guard session.phase == .opening else { return }
        session.phase = .ready
        open += 1
        unsettled -= 1
        counts.opened += 1
        latencies.record(.session, monotonicNanoseconds() - session.begun)
        if session.role == .slow, let connection = session.connection {
            _ = parley_epoll_control(
                epoll, EPOLL_CTL_MOD, connection.descriptor, EPOLLRDHUP.rawValue,
                UInt64(session.index))
        }
        if scenario.kind == .churn, window != nil { return }
        wheel.cancel(session.index)
        if window != nil, scenario.kind != .reconnect { schedule(session) }
    }

    /// Closes a session at its scheduled end; another one takes its place at once.
    func leave(_ session: LoadSession, at due: Int64) {
        if session.phase == .ready { open -= 1 } else { unsettled -= 1 }
        session.connection?.sendClose()
        session.connection = nil
        session.place = nil
        comeBack(session, at: due)
        session.nextDue = due + lifetime()
        connect(session)
    }

    /// Cuts the connection, without a Close; the session connects again later.
    func dropOut(_ session: LoadSession, backAt time: Int64) {
        open -= 1
        session.connection = nil
        comeBack(session, at: time)
        wheel.set(session.index, at: time)
    }

    private func comeBack(_ session: LoadSession, at time: Int64) {
        session.phase = .waiting
        session.begun = TimerWheel.rounded(time)
        unsettled += 1
    }

    /// A random length of a session's life (`churn`).
    func lifetime() -> Int64 {
        Int64(scenario.lifetime * Double.random(in: 0.5..<1.5, using: &random) * 1e9)
    }

    private func lose(_ session: LoadSession, _ reason: String) {
        countError(reason)
        counts.lost += 1
        if session.phase == .ready { open -= 1 } else { unsettled -= 1 }
        if session.chat?.intended != nil {
            turnsInFlight -= 1
            counts.turnsFailed += 1
        }
        session.connection = nil
        session.place = nil
        session.phase = .gone
        wheel.cancel(session.index)
        if scenario.kind == .churn, let window {
            // Its successor connects at its scheduled time.
            let next = max(session.nextDue, monotonicNanoseconds() + 100_000_000)
            guard next < window.upperBound else { return }
            comeBack(session, at: next)
            session.nextDue = next + lifetime()
            wheel.set(session.index, at: session.begun)
        }
    }

    private func endSlow(_ session: LoadSession) {
        counts.slowClosed += 1
        open -= 1
        session.connection = nil
        session.phase = .gone
        wheel.cancel(session.index)
    }

    /// Counts an error; beyond `maxErrorKinds`, errors share one entry. Control characters are made
    /// visible, because the reason may contain a server's text and is shown on a terminal.
    func countError(_ reason: String) {
        let reason = reason.visible()
        let known = errors[reason] != nil || errors.count < Self.maxErrorKinds
        errors[known ? reason : "other errors", default: 0] += 1
    }

    /// Watches for EPOLLOUT only while bytes wait to be sent.
    func watchForWritability(_ session: LoadSession) {
        guard let connection = session.connection, session.phase != .gone,
            connection.wantsWrite != session.watchesWritability
        else { return }
        session.watchesWritability.toggle()
        let events = EPOLLIN.rawValue | (session.watchesWritability ? EPOLLOUT.rawValue : 0)
        _ = parley_epoll_control(
            epoll, EPOLL_CTL_MOD, connection.descriptor, events, UInt64(session.index))
    }
}

extension LoadConnection.State {
    /// Whether the connection is lost.
    var isFailed: Bool {
        if case .failed = self { true } else { false }
    }
}
