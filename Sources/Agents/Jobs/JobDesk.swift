// The jobs of one shard between its sessions' tasks and Redis: sends what JobScripts writes, reads the
// reply stream, and resumes the task whose job has news. While a job is open, one task reads the
// stream on a link of its own, and one looks after the jobs; an idle shard has neither.
//
// Invariant: every open job has at most one task that waits for its news. The state is behind a lock,
// which is never held while a task is resumed or a command is sent.

import Codec
import Session
import Synchronization

/// Asks for the jobs of one shard.
final class JobDesk: Sendable {
    /// How often time limits are looked at.
    private static let tick = Duration.milliseconds(200)
    /// How often workers are looked after. 1 s, a fifth of a lease.
    private static let watchInterval = Duration.seconds(1)
    /// How often what others have left is removed.
    private static let tidyInterval = Duration.seconds(30)
    /// The pause after a read that failed.
    private static let readPause = Duration.milliseconds(100)

    /// The session's side of a job.
    private struct Reader {
        let host: any AgentHost
        var charged = 0
        var waiter: CheckedContinuation<Void, Never>?
    }

    private struct State {
        var board = JobBoard()
        var readers: [String: Reader] = [:]
        var isReading = false
        /// When the reply stream was read last, or the task began to.
        var lastRead = Instant(nanoseconds: 0)
        var isWatching = false
        /// When the jobs that other servers have left were last removed. Nil until that was done
        /// once.
        var tidied: Instant?
        var jobs: UInt64 = 0
    }

    /// Why Redis did not do what was asked.
    enum Refusal: Error {
        /// The worker whose job was claimed is alive, or has answered.
        case isAlive
    }

    let scripts: JobScripts
    private let commands: any RedisCommands
    private let replies: any RedisCommands
    private let state = Mutex(State())

    /// Creates the desk of a shard without jobs.
    /// - Parameters:
    ///   - commands: a link for commands, which others may use too.
    ///   - replies: a link of its own, for commands that wait.
    init(scripts: JobScripts, commands: any RedisCommands, replies: any RedisCommands) {
        self.scripts = scripts
        self.commands = commands
        self.replies = replies
    }

    // MARK: For the task of a session

    /// A name for a run that no other run has.
    func makeName(of turn: String) -> String {
        let number = state.withLock { state in
            state.jobs += 1
            return state.jobs
        }
        return "\(turn).\(number)"
    }

    /// Asks for a run. `close` ends it in any state.
    /// - Parameter isClaim: whether the command claims the job of another run.
    /// - Throws: `.rateLimited` where the stream is full; `Refusal.isAlive` where the job is not to
    ///   be claimed; `.upstream` where Redis does not answer.
    func open(
        _ job: String, _ command: RedisCommand, isClaim: Bool, limits: JobLimits,
        on host: any AgentHost
    ) async throws {
        let now = await host.now()
        let begins = state.withLock { state in
            state.board.open(job, limits: limits)
            state.readers[job] = Reader(host: host)
            if !state.isReading { state.lastRead = now }
            defer { (state.isReading, state.isWatching) = (true, true) }
            return (reading: !state.isReading, watching: !state.isWatching)
        }
        if begins.reading { host.startSharedWork { await self.read(on: $0) } }
        if begins.watching { host.startSharedWork { await self.watch(on: $0) } }
        let entry: String?
        do throws(RedisError) {
            entry = try await commands.send(command).text
        } catch {
            // Otherwise Redis may have it.
            if error.isHarmless { close(job, isOver: true) }
            throw Self.failure(error)
        }
        guard let entry else {
            close(job, isOver: true)
            if isClaim { throw Refusal.isAlive }
            throw AgentError.rateLimited(
                retryAfter: .seconds(1), detail: "the stream of jobs is full")
        }
        state.withLock { $0.board.handleAsked(job, entry: entry) }
    }

    /// Waits for news of a job; empty where the task is cancelled.
    func news(of job: String) async -> JobNews {
        while true {
            let now = await host(of: job)?.now() ?? Instant(nanoseconds: 0)
            let (news, goesOn) = state.withLock { state in
                let taken = state.board.takeNews(of: job, at: now)
                Self.charge(job, in: &state)
                return taken
            }
            if goesOn { start(scripts.hold(job, false), for: job) }
            if news != JobNews() || Task.isCancelled { return news }
            await wait(for: job)
        }
    }

    /// The entry of a job, as far as it is known.
    func entry(of job: String) -> String? { state.withLock { $0.board[job]?.entry } }

    /// Closes a job whose answer is no longer wanted. A worker that has not finished is stopped.
    /// - Parameter isOver: whether Redis does not have it any more.
    func close(_ job: String, isOver: Bool) {
        let (run, reader) = state.withLock { state in
            let reader = state.readers.removeValue(forKey: job)
            reader?.host.charge(-(reader?.charged ?? 0))
            return (state.board.close(job), reader)
        }
        reader?.waiter?.resume()
        guard let run, let reader, !isOver else { return }
        let command = scripts.stop(job, run.entry)
        let commands = commands
        reader.host.startSharedWork { _ in
            // Where Redis does not answer, the worker's next word is refused, or of no use.
            _ = try? await commands.send(command)
        }
    }

    /// Sends a command.
    /// - Throws: `CancellationError`; `AgentError.upstream`.
    func send(_ command: RedisCommand) async throws -> RedisValue {
        do throws(RedisError) {
            return try await commands.send(command)
        } catch {
            throw Self.failure(error)
        }
    }

    private static func failure(_ error: RedisError) -> any Error {
        guard error != .cancelled else { return CancellationError() }
        return AgentError.upstream(status: 0, message: "Redis failed: \(error)")
    }

    private func host(of job: String) -> (any AgentHost)? {
        state.withLock { $0.readers[job]?.host }
    }

    private func start(_ command: RedisCommand, for job: String) {
        let commands = commands
        host(of: job)?.startSharedWork { _ in _ = try? await commands.send(command) }
    }

    private func wait(for job: String) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let hasNews = state.withLock { state in
                    guard state.board[job]?.hasNews == false, !Task.isCancelled else {
                        return true
                    }
                    state.readers[job]?.waiter = continuation
                    return false
                }
                if hasNews { continuation.resume() }
                // The handler below found nothing where the task was cancelled before.
                if !hasNews, Task.isCancelled { wake(job) }
            }
        } onCancel: {
            wake(job)
        }
    }

    private func wake(_ job: String) {
        let waiter = state.withLock { $0.readers[job]?.waiter.take() }
        waiter?.resume()
    }

    /// Charges the session for the bytes that wait for it.
    private static func charge(_ job: String, in state: inout State) {
        guard var reader = state.readers[job] else { return }
        reader.host.charge(
            state.board[job]?.bufferedBytes ?? 0, insteadOf: &reader.charged)
        state.readers[job]?.charged = reader.charged
    }

    // MARK: The tasks of the shard

    /// Changes the board, and carries out the consequences.
    private func update(_ body: (inout JobBoard) -> Void) {
        var waiters: [CheckedContinuation<Void, Never>] = []
        let held = state.withLock { state in
            body(&state.board)
            let changes = state.board.takeChanges()
            for job in changes.changed {
                Self.charge(job, in: &state)
                if let waiter = state.readers[job]?.waiter.take() { waiters.append(waiter) }
            }
            return changes.held
        }
        for waiter in waiters { waiter.resume() }
        for job in held { start(scripts.hold(job, true), for: job) }
    }

    /// Reads the reply stream while a job is open.
    private func read(on host: any AgentHost) async {
        while true {
            let position: StreamPosition? = state.withLock { state in
                state.isReading = !state.board.isEmpty
                return state.isReading ? state.board.position : nil
            }
            guard let position else { return }
            do {
                let reply = try await replies.send(
                    scripts.read(after: position), timeout: JobScripts.readTimeout)
                let now = await host.now()
                state.withLock { $0.lastRead = now }
                update { $0.handle(replies: reply, at: now) }
            } catch {
                // The jobs wait: `watch` fails them where Redis is away for long.
                try? await host.sleep(for: Self.readPause)
            }
        }
    }

    /// Looks after the jobs while one is open.
    private func watch(on host: any AgentHost) async {
        let start = await host.now()
        var (heard, watched) = (start, start)
        while true {
            let now = await host.now()
            await tidy(at: now)
            update { $0.handleTime(now) }
            let isOver = state.withLock { state in
                state.isWatching = !state.board.isEmpty
                return !state.isWatching
            }
            if isOver { return }
            if watched + Self.watchInterval <= now {
                watched = now
                if await look() {
                    heard = now
                } else if heard + scripts.queue.lease <= now {
                    update {
                        $0.failAll(.upstream(status: 0, message: "Redis does not answer."))
                    }
                }
                failUnread(at: now)
            }
            try? await host.sleep(for: Self.tick)
        }
    }

    /// Removes what others have left, where that was not done a moment ago. The time outlives `watch`,
    /// which ends with each turn of a server that has few; turns that a full stream refuses tidy too.
    private func tidy(at now: Instant) async {
        let isDue = state.withLock { state in
            if let tidied = state.tidied, tidied + Self.tidyInterval > now { return false }
            state.tidied = now
            return true
        }
        guard isDue else { return }
        // Where all jobs that were checked are removed, the next ones may have been left, too.
        for _ in 0...(scripts.queue.maxJobs / JobScripts.tidied) {
            let removed = try? await commands.send(scripts.tidy()).integer
            guard removed == Int64(JobScripts.tidied) else { return }
        }
    }

    /// Ends all jobs where Redis answers, but its reply stream cannot be read.
    private func failUnread(at now: Instant) {
        let isStuck = state.withLock { state in
            guard state.lastRead + JobScripts.readTimeout + scripts.queue.lease <= now else {
                return false
            }
            state.lastRead = now
            return true
        }
        guard isStuck else { return }
        update {
            $0.failReading(
                .upstream(status: 0, message: "The answers in Redis cannot be read."))
        }
    }

    /// Asks Redis for the state of the jobs.
    /// - Returns: whether it answers.
    private func look() async -> Bool {
        var (jobs, position) = state.withLock { ($0.board.watched, $0.board.position) }
        repeat {
            let asked = Array(jobs.prefix(JobScripts.maxWatched))
            jobs.removeFirst(asked.count)
            do {
                let sights = try await commands.send(scripts.watch(asked, after: position))
                update { $0.handle(sights: sights, of: asked.map(\.job)) }
            } catch {
                return false
            }
        } while !jobs.isEmpty
        return true
    }
}
