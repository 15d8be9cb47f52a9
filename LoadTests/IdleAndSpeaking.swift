// The scenario: idle sessions, then speaking ones beside them, on one thread with one epoll. Fifty
// speaking sessions are 2,500 packets a second, a few percent of a core.

import CLinux
import Codec

/// A session that speaks, or one that only stays open.
private final class LoadSession {
    let connection: LoadConnection
    var observer = SessionObserver()
    /// Its place among the sessions, for the epoll.
    let token: UInt64
    /// Whether it speaks.
    let speaks: Bool
    /// When the next packet is due, and which of the loop it is.
    var nextPacketDue: Int64 = .max
    var nextPacket = 0
    /// Whether the epoll reports room in the socket.
    var isRoomWatched = false

    init(_ connection: LoadConnection, token: Int, speaks: Bool) {
        self.connection = connection
        self.token = UInt64(token)
        self.speaks = speaks
    }
}

/// Runs the scenario once.
final class IdleAndSpeaking {
    /// Connections that are opened between two looks at those that are open.
    private static let openedAtOnce = 16
    /// How long all sessions may take to open.
    private static let openingNanoseconds: Int64 = 60_000_000_000

    private let server: ServerAddress
    private let idle: Int
    private let speaking: Int
    private let seconds: Int
    private let speech: SpokenLoop
    private var generator: SplitMix64
    private let epoll: Int32
    private var sessions: [LoadSession] = []
    private var counts = LoadCounts()
    private let readBuffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 256 << 10, alignment: 16)

    /// Prepares a run.
    /// - Throws: `LoadFailure` when the process may not open that many descriptors.
    init(
        server: ServerAddress, idle: Int, speaking: Int, seconds: Int, speech: SpokenLoop,
        seed: UInt64
    ) throws(LoadFailure) {
        self.server = server
        self.idle = idle
        self.speaking = speaking
        self.seconds = seconds
        self.speech = speech
        generator = SplitMix64(state: seed)
        epoll = epoll_create1(0)
        try raiseDescriptorLimit(to: idle + speaking + 64)
    }

    deinit {
        readBuffer.deallocate()
        close(epoll)
    }

    /// Opens, speaks, and reports.
    /// - Throws: `LoadFailure` when sessions cannot be opened or /metrics cannot be read.
    func run() throws(LoadFailure) -> LoadReport {
        let atStart = try MetricsPage(of: server)
        try open(idle, speaking: false)
        let withIdle = try MetricsPage(of: server)
        printError("\(idle) idle sessions are open\n")
        try open(speaking, speaking: true)
        let begin = monotonicNanoseconds()
        let beforeSpeech = try MetricsPage(of: server)
        scheduleSpeech(from: begin)
        printError("\(speaking) sessions speak for \(seconds) s\n")
        try runLoop(until: begin + Int64(seconds) * 1_000_000_000)
        let atEnd = try MetricsPage(of: server)
        for session in sessions {
            if case .failed(let reason) = session.connection.state { counts.countFailure(reason) }
        }
        return LoadReport(
            idle: idle, speaking: speaking, seconds: seconds, counts: counts, atStart: atStart,
            withIdle: withIdle, beforeSpeech: beforeSpeech, atEnd: atEnd)
    }

    // MARK: Opening

    private func open(_ count: Int, speaking: Bool) throws(LoadFailure) {
        let deadline = monotonicNanoseconds() + Self.openingNanoseconds
        for number in 0..<count {
            let session = LoadSession(
                try LoadConnection(to: server), token: sessions.count, speaks: speaking)
            let descriptor = session.connection.descriptor
            guard
                parley_epoll_control(
                    epoll, EPOLL_CTL_ADD, descriptor, EPOLLIN.rawValue, session.token) == 0
            else { throw .system("epoll_ctl") }
            sessions.append(session)
            if number % Self.openedAtOnce == 0 { try handleEvents(until: 0) }
        }
        while counts.sessionsReady < sessions.count {
            guard monotonicNanoseconds() < deadline else {
                throw LoadFailure(
                    "\(counts.sessionsReady) of \(sessions.count) sessions opened within 60 s")
            }
            if let failed = sessions.first(where: { $0.connection.state.isFailed }) {
                throw LoadFailure("a session was not opened: \(failed.connection.state)")
            }
            try handleEvents(until: monotonicNanoseconds() + 100_000_000)
        }
    }

    private static let update = """
        {"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":\
        {"type":"audio/opus"},"transcription":{"model":"default"},"turn_detection":\
        {"type":"server_vad"}},"output":{"format":{"type":"audio/opus"},"transport":"binary"}}}}
        """

    // MARK: Speaking

    /// Spreads the beginnings over one round, so that turns do not all end together.
    private func scheduleSpeech(from begin: Int64) {
        let round = UInt64(speech.packets.count) * UInt64(SpokenLoop.packetNanoseconds)
        for session in sessions where session.speaks {
            let offset = Int64(generator.next(upperBound: round))
            session.nextPacketDue = begin + offset
        }
    }

    private func runLoop(until end: Int64) throws(LoadFailure) {
        let speakers = sessions.filter(\.speaks)
        while true {
            let now = monotonicNanoseconds()
            guard now < end else { return }
            var next = end
            for session in speakers {
                while session.nextPacketDue <= now { sendPacket(of: session, at: now) }
                next = min(next, session.nextPacketDue)
            }
            try handleEvents(until: next)
        }
    }

    private func sendPacket(of session: LoadSession, at now: Int64) {
        counts.sendLateness.append(now - session.nextPacketDue)
        session.connection.send(binary: speech.packets[session.nextPacket])
        watchForRoom(session)
        session.nextPacket += 1
        session.nextPacketDue += SpokenLoop.packetNanoseconds
        if session.nextPacket == speech.speechPackets {
            // A packet is due when its last sample has been spoken.
            session.observer.endOfSpeech = session.nextPacketDue - SpokenLoop.packetNanoseconds
        }
        if session.nextPacket == speech.packets.count { session.nextPacket = 0 }
    }

    // MARK: Events

    private func handleEvents(until deadline: Int64) throws(LoadFailure) {
        var events = [epoll_event](repeating: epoll_event(), count: 256)
        let left = max(0, deadline - monotonicNanoseconds())
        // Rounded up to whole milliseconds: what that costs is in `sendLateness`.
        let count = epoll_wait(
            epoll, &events, Int32(events.count), Int32((left + 999_999) / 1_000_000))
        guard count >= 0 || parley_errno() == EINTR else { throw .system("epoll_wait") }
        for event in events.prefix(Int(max(0, count))) {
            handle(sessions[Int(event.data.u64)], event)
        }
    }

    private func handle(_ session: LoadSession, _ event: epoll_event) {
        let connection = session.connection
        if event.events & EPOLLOUT.rawValue != 0 { connection.flush() }
        let wasUpgrading = connection.state == .upgrading
        connection.receive(into: readBuffer) { message in
            let now = monotonicNanoseconds()
            switch message {
            case .text(let text): session.observer.handle(event: text, at: now, into: &counts)
            case .binary(let audio): session.observer.handle(audio: audio, at: now, into: &counts)
            }
        }
        if wasUpgrading && connection.state == .open { connection.send(text: Self.update) }
        if connection.state.isFailed {
            _ = parley_epoll_control(epoll, EPOLL_CTL_DEL, connection.descriptor, 0, 0)
        } else {
            watchForRoom(session)
        }
    }

    /// Asks for EPOLLOUT only while bytes wait.
    private func watchForRoom(_ session: LoadSession) {
        guard session.connection.wantsWrite != session.isRoomWatched else { return }
        session.isRoomWatched.toggle()
        let events = EPOLLIN.rawValue | (session.isRoomWatched ? EPOLLOUT.rawValue : 0)
        _ = parley_epoll_control(
            epoll, EPOLL_CTL_MOD, session.connection.descriptor, events, session.token)
    }
}

extension LoadConnection.State {
    /// Whether the connection is lost.
    var isFailed: Bool {
        if case .failed = self { true } else { false }
    }
}

/// Lets this process open many sockets, within what the machine allows.
private func raiseDescriptorLimit(to wanted: Int) throws(LoadFailure) {
    let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard getrlimit(descriptors, &limit) == 0 else { throw .system("getrlimit") }
    guard limit.rlim_cur < rlim_t(wanted) else { return }
    limit.rlim_cur = min(rlim_t(wanted), limit.rlim_max)
    guard setrlimit(descriptors, &limit) == 0, limit.rlim_cur >= rlim_t(wanted) else {
        throw LoadFailure("this process may open \(limit.rlim_cur) files, and \(wanted) are needed")
    }
}
