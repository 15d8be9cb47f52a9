// One connection to a Redis server as a state machine: when it connects, logs in and gives up, which
// command a reply answers, and which commands it refuses. It has no socket and reads no clock;
// RedisLink does what its actions say.
//
//   idle ─ open ─▶ connecting ─▶ preparing ─▶ ready
//                    ▲   │           │          │      a loss, a reply that is no RESP2, or a
//                    │   ▼           ▼          ▼      command without a reply in time
//                  waiting (a random part of 100 ms, 200 ms … 1 s)
//
// A server that is away must not be felt: from a loss until the connection is ready again, every
// command is refused at once. Commands wait only before the first connection, and no longer than
// their own time limit.
//
// Invariant: each accepted command completes exactly once. Replies answer commands in their order.
// No more than `maxCommands` commands and `maxQueuedBytes` unsent bytes are held.

import Codec
import Session

/// Limits of one connection to a Redis server.
package struct RedisLimits: Equatable, Sendable {
    /// Commands without a reply. 8,192: what 8 sessions in 10 of a large shard write in a second.
    package var maxCommands = 8_192
    /// Bytes that are not sent. 8 MiB: the same commands with 1 kB each.
    package var maxQueuedBytes = 8 << 20
    /// Bytes of one reply; see `RedisReader`.
    package var maxReplyBytes = 16 << 20
    /// Time from a command to its reply, unless the command has a limit of its own. 1 s: a thousand
    /// times what a reply takes.
    package var commandTimeout = Duration.seconds(1)
    /// Time to connect, to log in and to get a first reply. 2 s.
    package var connectTimeout = Duration.seconds(2)
    /// The longest first pause after a loss; it doubles with each failure. 100 ms.
    package var firstPause = Duration.milliseconds(100)
    /// The longest pause. 1 s: a server that was cut off soon learns which of its sessions others have.
    package var longestPause = Duration.seconds(1)

    /// The defaults.
    package init() {}
}

/// A command that a server must carry out before its connection counts as ready.
enum RedisProbe: Equatable {
    /// A write. A user who may not write the probe's key is served: its keys may be others.
    case write
    /// The write, and a script with two keys. Any refusal counts, because the keys are the server's
    /// own: a user without their permission, or a Redis Cluster, keeps nothing.
    case script(keys: [String])
}

/// An action for the owner of a pipeline, which performs all of them in order.
enum RedisAction<Tag> {
    /// Open a connection, then call `handleConnected` or `handleLoss`.
    case connect
    /// Close the connection, open or in the making.
    case disconnect
    /// A command has its outcome.
    case complete(Tag, Result<RedisValue, RedisError>)
    /// The server answers.
    case becomeReady
    /// The server cannot be used any more, or for another cause than before. The text is a sentence
    /// for the operator.
    case becomeAway(String, RedisTrouble)
}

/// The state of one connection. After each call, take all actions with `nextAction()`, and send
/// `unsent`. `Tag` names a command for its owner.
struct RedisPipeline<Tag> {
    private enum Phase: Equatable {
        case idle
        case connecting(until: Instant)
        case preparing(until: Instant)
        case ready
        case waiting(until: Instant)
        case closed
    }

    /// The command that a reply answers.
    private enum Purpose {
        case command(Tag, RedisScript?)
        /// A step before the connection is ready; the last one makes it so.
        case preparation(isLast: Bool)
        case scriptLoad
    }

    private struct Expected {
        let purpose: Purpose
        /// When the command times out, or nil where it has no limit.
        let deadline: Instant?
    }

    /// A command before the first connection.
    private struct Waiting {
        let command: RedisCommand
        let tag: Tag
        let deadline: Instant?
    }

    private let address: RedisAddress
    private let name: String
    private let probe: RedisProbe
    private let limits: RedisLimits
    /// A random delay from zero to the given one.
    private let drawDelay: (Duration) -> Duration
    private var phase = Phase.idle
    private var reader: RedisReader
    private var actions: [RedisAction<Tag>] = []
    private var firstAction = 0
    /// Replies that are to come, in order; those before `firstExpected` have come.
    private var expected: [Expected] = []
    private var firstExpected = 0
    private var waiting: [Waiting] = []
    private var waitingBytes = 0
    private var output: [UInt8] = []
    private var sentBytes = 0
    /// Scripts that the connection has loaded.
    private var loadedScripts: Set<String> = []
    /// Connections that failed in a row.
    private var failures = 0
    /// Why the server cannot be used, as it was last reported. Nil where it can, or was not asked
    /// yet.
    private(set) var trouble: RedisTrouble?
    /// No later than the earliest deadline of a command; activity does not move it.
    private var check: Instant?

    /// Creates a pipeline that does nothing until it is opened or gets a command.
    /// - Parameter name: how the server's `CLIENT LIST` shows the connection; printable, no blanks.
    init(
        to address: RedisAddress, named name: String, probe: RedisProbe, limits: RedisLimits,
        drawDelay: @escaping (Duration) -> Duration
    ) {
        self.address = address
        self.name = name
        self.probe = probe
        self.limits = limits
        self.drawDelay = drawDelay
        reader = RedisReader(maxReplyBytes: limits.maxReplyBytes)
    }

    // MARK: Getters

    /// Whether the server answers.
    var isReady: Bool { phase == .ready }
    /// Whether commands are refused because the server does not answer.
    var isAway: Bool { failures > 0 && phase != .ready || phase == .closed }
    /// Commands without a reply.
    var commandCount: Int { expected.count - firstExpected + waiting.count }
    /// Bytes that are not sent.
    var queuedBytes: Int { output.count - sentBytes + waitingBytes }
    /// Whether there are bytes to send.
    var hasUnsent: Bool { sentBytes < output.count }

    /// When `handleTimer` is next needed.
    var nextDeadline: Instant? {
        let own: Instant? =
            switch phase {
            case .connecting(let until), .preparing(let until), .waiting(let until): until
            case .idle, .ready, .closed: nil
            }
        guard let own, let check else { return own ?? check }
        return min(own, check)
    }

    /// The next thing to do, or nil.
    mutating func nextAction() -> RedisAction<Tag>? {
        guard firstAction < actions.count else {
            actions.removeAll(keepingCapacity: actions.count <= 64)
            firstAction = 0
            return nil
        }
        defer { firstAction += 1 }
        return actions[firstAction]
    }

    // MARK: Commands

    /// Begins to connect, unless it has.
    mutating func open(at now: Instant) {
        guard phase == .idle else { return }
        connect(at: now)
    }

    /// Accepts a command.
    /// - Parameter timeout: the limit of the wait for the reply. Nil is the usual limit. `.zero`
    ///   sets none, for commands that wait.
    /// - Throws: `.unavailable` or `.overloaded`. Then the command has no outcome.
    mutating func send(
        _ command: RedisCommand, timeout: Duration? = nil, tag: Tag, at now: Instant
    ) throws(RedisError) {
        guard !isAway else { throw .unavailable }
        guard commandCount < limits.maxCommands,
            queuedBytes + command.byteCount <= limits.maxQueuedBytes
        else { throw .overloaded }
        open(at: now)
        let limit = timeout ?? limits.commandTimeout
        let deadline = limit > .zero ? now + limit : nil
        note(deadline)
        if phase == .ready {
            enqueue(command, tag: tag, deadline: deadline)
        } else {
            waiting.append(Waiting(command: command, tag: tag, deadline: deadline))
            waitingBytes += command.byteCount
        }
    }

    /// Ends for good: commands that wait fail, and every later command is refused.
    mutating func close(at now: Instant) {
        guard phase != .closed else { return }
        if phase != .idle { actions.append(.disconnect) }
        phase = .closed
        failAll(with: .disconnected, at: now)
    }

    private mutating func enqueue(
        _ command: RedisCommand, tag: Tag, deadline: Instant?
    ) {
        if let script = command.script, loadedScripts.insert(script.digest).inserted {
            expect(.scriptLoad, of: script.load, deadline: deadline)
        }
        expect(
            .command(tag, command.script), of: command, deadline: deadline)
    }

    private mutating func expect(
        _ purpose: Purpose, of command: RedisCommand, deadline: Instant? = nil
    ) {
        command.encode(into: &output)
        expected.append(Expected(purpose: purpose, deadline: deadline))
    }

    // MARK: The connection

    /// Calls `body` with the bytes to send.
    func withUnsent(_ body: (UnsafeRawBufferPointer) -> Void) {
        output.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[sentBytes...])) }
    }

    /// Removes bytes that were sent.
    mutating func handleSent(_ count: Int) {
        sentBytes += count
        if sentBytes == output.count {
            output.removeAll(keepingCapacity: output.capacity <= 1 << 16)
            sentBytes = 0
        } else if sentBytes >= 1 << 20 {
            output.removeFirst(sentBytes)
            sentBytes = 0
        }
    }

    /// The connection is open.
    mutating func handleConnected(at now: Instant) {
        guard case .connecting(let until) = phase else { return }
        phase = .preparing(until: until)
        for step in preparation {
            expect(.preparation(isLast: false), of: step)
        }
        // A server that accepts connections and is stuck must not count as ready, and neither must one
        // that answers and writes nothing: a replica, or one whose memory or disk is full.
        switch probe {
        case .write: expect(.preparation(isLast: true), of: Self.emptyWrite)
        case .script(let keys):
            expect(.preparation(isLast: false), of: Self.emptyWrite)
            let script = RedisScript("return redis.call('EXISTS', KEYS[1], KEYS[2])")
            expect(.preparation(isLast: false), of: script.load)
            // The keys have different slots, so that a Redis Cluster refuses them.
            expect(
                .preparation(isLast: true),
                of: RedisCommand(script, keys: keys))
        }
    }

    /// A write that every server of use carries out, and that changes nothing: of a key that is not
    /// there, no byte is replaced.
    private static var emptyWrite: RedisCommand {
        RedisCommand("SETRANGE", "parley:probe", "0", "")
    }

    private var preparation: [RedisCommand] {
        var steps: [RedisCommand] = []
        if let password = address.password {
            var login = RedisCommand("AUTH")
            if let user = address.user { login.append(user) }
            login.append(password)
            steps.append(login)
        }
        if address.database != 0 { steps.append(RedisCommand("SELECT", "\(address.database)")) }
        steps.append(RedisCommand("CLIENT", "SETNAME", name))
        return steps
    }

    /// Bytes have come.
    mutating func handleReceived(_ bytes: UnsafeRawBufferPointer, at now: Instant) {
        do throws(RedisProtocolError) {
            try reader.feed(bytes)
            while let reply = try reader.next() {
                guard firstExpected < expected.count else {
                    return lose("it sends what nothing asked for", at: now)
                }
                handle(reply, to: takeExpected(), at: now)
                // An error reply may have ended the connection.
                guard phase == .ready || isPreparing else { return }
            }
        } catch {
            lose("its answer is no RESP2 (\(error))", at: now)
        }
    }

    /// The connection was lost, or could not be opened.
    /// - Parameter reason: the end of a sentence for the operator.
    mutating func handleLoss(_ reason: String, at now: Instant) {
        switch phase {
        case .connecting, .preparing, .ready: lose(reason, at: now)
        case .idle, .waiting, .closed: break
        }
    }

    /// The time of `nextDeadline` has come.
    mutating func handleTimer(at now: Instant) {
        switch phase {
        case .waiting(let until) where until <= now: connect(at: now)
        case .connecting(let until) where until <= now:
            lose("it cannot be reached in time", at: now)
        case .preparing(let until) where until <= now: lose("it does not answer", at: now)
        case .idle, .waiting, .connecting, .preparing, .ready, .closed: break
        }
        guard let check, check <= now else { return }
        endOverdue(at: now)
    }

    private var isPreparing: Bool {
        if case .preparing = phase { true } else { false }
    }

    private mutating func takeExpected() -> Expected {
        defer {
            firstExpected += 1
            if firstExpected == expected.count {
                expected.removeAll(keepingCapacity: expected.capacity <= 1_024)
                firstExpected = 0
                if waiting.isEmpty { check = nil }
            } else if firstExpected >= 1_024 {
                expected.removeFirst(firstExpected)
                firstExpected = 0
            }
        }
        return expected[firstExpected]
    }

    private mutating func handle(_ reply: RedisValue, to expected: Expected, at now: Instant) {
        let result = RedisError.result(of: reply)
        switch expected.purpose {
        case .scriptLoad: break
        case .preparation(let isLast):
            if case .failure(let error) = result,
                !isLast || probe != .write || error.asksForNewConnection
            {
                lose(
                    "it refuses the connection (\(Self.text(of: error)))", RedisTrouble(error),
                    at: now)
            } else if isLast {
                becomeReady(at: now)
            }
        case .command(let tag, let script):
            complete(tag, result)
            guard case .failure(let error) = result else { return }
            // Its scripts were removed; the next use loads this one again.
            if let script, case .refused("NOSCRIPT", _) = error {
                loadedScripts.remove(script.digest)
            }
            if error.asksForNewConnection {
                lose(
                    "it carries out no commands (\(Self.text(of: error)))", RedisTrouble(error),
                    at: now)
            }
        }
    }

    private mutating func becomeReady(at now: Instant) {
        phase = .ready
        failures = 0
        trouble = nil
        actions.append(.becomeReady)
        let commands = waiting
        (waiting, waitingBytes) = ([], 0)
        for waited in commands {
            enqueue(
                waited.command, tag: waited.tag, deadline: waited.deadline)
        }
    }

    private mutating func connect(at now: Instant) {
        phase = .connecting(until: now + limits.connectTimeout)
        actions.append(.connect)
    }

    /// - Parameter cause: one that differs from the last report is reported, too: a password that was
    ///   changed while the server was away would otherwise never be named.
    private mutating func lose(
        _ reason: String, _ cause: RedisTrouble = .unreachable, at now: Instant
    ) {
        actions.append(.disconnect)
        if trouble != cause { actions.append(.becomeAway(reason, cause)) }
        trouble = cause
        let longest = min(
            limits.firstPause * (1 << min(failures, 16)), limits.longestPause)
        failures += 1
        // A server that answers and refuses is asked again less often: it is not about to come back.
        let least = cause == .unreachable ? .zero : longest / 2
        phase = .waiting(until: now + least + drawDelay(longest - least))
        failAll(with: .disconnected, at: now)
    }

    /// Commands that are overdue fail with `.timedOut`, the others with `error`.
    private mutating func failAll(with error: RedisError, at now: Instant) {
        let commands = expected[firstExpected...]
        let notSent = waiting
        reader = RedisReader(maxReplyBytes: limits.maxReplyBytes)
        (expected, firstExpected, output, sentBytes) = ([], 0, [], 0)
        (waiting, waitingBytes, loadedScripts, check) = ([], 0, [], nil)
        for command in commands {
            guard case .command(let tag, _) = command.purpose else { continue }
            let isOverdue = command.deadline.map { $0 <= now } ?? false
            complete(
                tag, .failure(isOverdue ? .timedOut : error))
        }
        for command in notSent {
            complete(command.tag, .failure(.unavailable))
        }
    }

    private mutating func complete(_ tag: Tag, _ result: Result<RedisValue, RedisError>) {
        actions.append(.complete(tag, result))
    }

    // MARK: Time limits

    private mutating func note(_ deadline: Instant?) {
        guard let deadline else { return }
        check = min(check ?? deadline, deadline)
    }

    /// A server that leaves one command without a reply leaves all later ones without, so the
    /// connection is closed. Each command that was not sent fails at its own deadline.
    private mutating func endOverdue(at now: Instant) {
        let isStuck = expected[firstExpected...].contains { command in
            command.deadline.map { $0 <= now } ?? false
        }
        if isStuck { return lose("it does not answer", at: now) }
        let late = waiting.filter { command in command.deadline.map { $0 <= now } ?? false }
        waiting.removeAll { command in command.deadline.map { $0 <= now } ?? false }
        waitingBytes = waiting.reduce(0) { $0 + $1.command.byteCount }
        for command in late {
            complete(command.tag, .failure(.unavailable))
        }
        check = nil
        for command in expected[firstExpected...] { note(command.deadline) }
        for command in waiting { note(command.deadline) }
    }

    private static func text(of error: RedisError) -> String {
        if case .refused(_, let message) = error { message } else { "\(error)" }
    }
}
