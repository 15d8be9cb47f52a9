// The runs of one shard's jobs: finds the run of each piece of the reply stream, keeps the place up to
// which the stream was read, and says which runs have news. It is pure; JobDesk reads and writes.
//
// Invariant: a run is here from `open` to `close`. Pieces of other runs, such as those that were
// closed, change nothing.

import Codec
import Session

/// The jobs of one shard.
struct JobBoard {
    private var runs: [String: JobRun] = [:]
    /// The last entry of the reply stream that was read.
    private(set) var position = StreamPosition.start
    /// The last entry that is known to be there.
    private var end = StreamPosition.start
    private var changed: [String] = []
    private var held: [String] = []

    /// Whether no job is open.
    var isEmpty: Bool { runs.isEmpty }

    /// The run of a job; nil where it is closed.
    subscript(job: String) -> JobRun? { runs[job] }

    /// Begins a job.
    mutating func open(_ job: String, limits: JobLimits) {
        precondition(runs[job] == nil, "two jobs of one name")
        runs[job] = JobRun(limits: limits)
    }

    /// Redis has the job.
    mutating func handleAsked(_ job: String, entry: String) {
        runs[job]?.handleAsked(entry: entry)
    }

    /// Nothing more of a job is wanted.
    /// - Returns: the run, unless it is closed already.
    mutating func close(_ job: String) -> JobRun? { runs.removeValue(forKey: job) }

    /// Takes a job's news since the last call.
    /// - Returns: the news, and whether its worker must get the permission to go on.
    mutating func takeNews(of job: String, at now: Instant) -> (news: JobNews, goesOn: Bool) {
        runs[job]?.takeNews(at: now) ?? (JobNews(), false)
    }

    /// The jobs that have got news since the last call, and those whose workers must be told to
    /// wait.
    mutating func takeChanges() -> (changed: [String], held: [String]) {
        defer { (changed, held) = ([], []) }
        return (changed, held)
    }

    // MARK: The reply stream

    /// Takes the reply to `XREAD` for one stream. A reply of another form changes nothing.
    mutating func handle(replies: RedisValue, at now: Instant) {
        guard let stream = replies.array?.first?.array, stream.count == 2,
            let entries = stream[1].array
        else { return }
        for entry in entries { handle(entry: entry, at: now) }
    }

    private mutating func handle(entry: RedisValue, at now: Instant) {
        guard let pair = entry.array, pair.count == 2,
            let id = pair[0].text.flatMap({ StreamPosition($0) })
        else { return }
        position = max(position, id)
        end = max(end, id)
        guard let fields = pair[1].fields, let bytes = fields["job"],
            let job = String(validating: bytes, as: UTF8.self), var run = runs[job]
        else { return }
        do throws(JobPieceError) {
            if run.handle(try JobPiece(job: job, fields: fields), at: now) { held.append(job) }
        } catch {
            run.handle(error)
        }
        update(job, run)
    }

    // MARK: Looking after

    /// The jobs that Redis knows and that are not over, with their entries, in the order of their
    /// names.
    var watched: [(job: String, entry: String)] {
        runs.compactMap { job, run in
            guard !run.isOver, let entry = run.entry else { return nil }
            return (job, entry)
        }.sorted { $0.job < $1.job }
    }

    /// Takes the reply of watch.lua. A reply of another form changes nothing.
    /// - Parameter jobs: the jobs that were asked about, in order.
    mutating func handle(sights: RedisValue, of jobs: [String]) {
        guard let values = sights.array, values.count == jobs.count + 1,
            let last = values[0].text.flatMap({ StreamPosition($0) })
        else { return }
        let hasRead = last <= position
        end = last
        // Redis has lost the stream, and the time of its machine was set back: new entries come
        // before those that were read.
        if last < position { position = .start }
        for (job, value) in zip(jobs, values.dropFirst()) {
            guard var run = runs[job], let sight = value.text.flatMap({ JobSight(rawValue: $0) })
            else { continue }
            run.handle(sight, hasRead: hasRead)
            update(job, run)
        }
    }

    /// Ends the jobs whose time limits have passed.
    mutating func handleTime(_ now: Instant) {
        for job in runs.keys.sorted() {
            guard var run = runs[job] else { continue }
            run.handleTime(now)
            update(job, run)
        }
    }

    /// The reply stream could not be read for too long: what is in it is skipped, because it may be
    /// the reason.
    mutating func failReading(_ error: AgentError) {
        position = end
        failAll(error)
    }

    /// Redis has not answered for too long.
    mutating func failAll(_ error: AgentError) {
        for job in runs.keys.sorted() {
            guard var run = runs[job] else { continue }
            run.fail(error)
            update(job, run)
        }
    }

    private mutating func update(_ job: String, _ run: JobRun) {
        runs[job] = run
        if run.hasNews { changed.append(job) }
    }
}
