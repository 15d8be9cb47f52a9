// The commands with which a server asks for jobs and looks after them. Each operation is a Lua script of
// the folder Scripts; the reply stream is read by XREAD. examples/worker/lua has the scripts of
// workers. JobDesk sends the commands.

import Codec
import Session

/// A run whose worker seems to have died.
struct LostJob {
    let name: String
    let entry: String
    /// Whether Redis had lost its entry. Otherwise an entry that is missing now means that its worker
    /// has answered.
    let isGone: Bool
}

/// The commands of one queue.
struct JobScripts: Sendable {
    private static let ask = script(PackageResources.ask_lua)
    private static let claim = script(PackageResources.claim_lua)
    private static let bury = script(PackageResources.bury_lua)
    private static let stop = script(PackageResources.stop_lua)
    private static let hold = script(PackageResources.hold_lua)
    private static let watch = script(PackageResources.watch_lua)
    private static let tidy = script(PackageResources.tidy_lua)

    /// How long a reply stream outlives its server. 30 s: longer than a pause of a healthy server.
    private static let replyLifetime = Duration.seconds(30)
    /// How long a job that may not be there is refused to workers. 10 min: as long as a turn may take.
    private static let refusal = Duration.seconds(600)
    /// Dead letters that are kept. 1,000.
    private static let maxDeadLetters = 1_000
    /// How long they are kept after the last one. A week.
    private static let deadLetterLifetime = Duration.seconds(7 * 86_400)
    /// How many of the oldest jobs are checked for servers that are gone. 20: their texts are read.
    static let tidied = 20
    /// How long a worker that asks for no job is kept in the group. An hour.
    private static let consumerLifetime = Duration.seconds(3_600)
    /// Pieces of one read. 128: of 64 KiB, the most that say.lua allows, they are half of the longest
    /// reply that a link takes.
    private static let maxPieces = 128
    /// How long a read waits. 2 s.
    private static let readWait = Duration.seconds(2)
    /// The time limit of a read: a server that does not answer then is away.
    static let readTimeout = Duration.seconds(4)
    /// Jobs of one look. 500: a millisecond of Redis.
    static let maxWatched = 500

    let queue: JobQueue
    /// The key of the reply stream.
    let replies: String

    private static func script(_ bytes: [UInt8]) -> RedisScript {
        RedisScript(String(decoding: bytes, as: UTF8.self))
    }

    /// Asks for a job.
    func ask(_ fields: [JobField], within limit: Duration) -> RedisCommand {
        var command = RedisCommand(Self.ask, keys: [queue.stream, replies])
        command.append(queue.group)
        command.append(queue.maxJobs)
        command.append(Self.replyLifetime.wholeMilliseconds)
        command.append(limit.wholeMilliseconds)
        command.append(fields)
        return command
    }

    /// Gives the job of a worker that has died to the group again.
    func claim(
        _ job: LostJob, as fields: [JobField], within limit: Duration
    ) -> RedisCommand {
        var command = RedisCommand(Self.claim, keys: [queue.stream, queue.lease(of: job.name)])
        command.append(queue.group)
        command.append(job.entry)
        command.append(job.isGone ? 1 : 0)
        command.append(limit.wholeMilliseconds)
        command.append(fields)
        return command
    }

    /// Makes the job of a worker that has died a dead letter.
    func bury(_ job: LostJob, reason: String) -> RedisCommand {
        var command = RedisCommand(
            Self.bury, keys: [queue.stream, queue.lease(of: job.name), queue.deadLetters])
        command.append(queue.group)
        command.append(job.entry)
        command.append(job.isGone ? 1 : 0)
        command.append(reason)
        command.append(Self.maxDeadLetters)
        command.append(Self.deadLetterLifetime.wholeMilliseconds)
        return command
    }

    /// Stops a job: its answer is no longer wanted.
    /// - Parameter entry: the id of the job's entry, or nil where it is not known whether Redis has
    ///   the job.
    func stop(_ job: String, _ entry: String?) -> RedisCommand {
        var command = RedisCommand(Self.stop, keys: [queue.stream, queue.lease(of: job)])
        command.append(queue.group)
        command.append(entry ?? "")
        command.append(Self.refusal.wholeMilliseconds)
        return command
    }

    /// The worker of a job is to wait, or may go on.
    func hold(_ job: String, _ waits: Bool) -> RedisCommand {
        var command = RedisCommand(Self.hold, keys: [queue.lease(of: job)])
        command.append(waits ? 1 : 0)
        return command
    }

    /// Looks after jobs.
    /// - Parameter position: the last piece that was read.
    func watch(
        _ jobs: [(job: String, entry: String)], after position: StreamPosition
    ) -> RedisCommand {
        var command = RedisCommand(
            Self.watch, keys: [queue.stream, replies] + jobs.map { queue.lease(of: $0.job) })
        command.append(queue.group)
        command.append(Self.replyLifetime.wholeMilliseconds)
        command.append(position.description)
        command.append(queue.lease.wholeMilliseconds)
        for (_, entry) in jobs { command.append(entry) }
        return command
    }

    /// Removes what servers and workers that are gone have left.
    func tidy() -> RedisCommand {
        var command = RedisCommand(Self.tidy, keys: [queue.stream])
        command.append(queue.group)
        command.append(Self.tidied)
        command.append(Self.consumerLifetime.wholeMilliseconds)
        return command
    }

    /// Waits for pieces; on a link of its own.
    func read(after position: StreamPosition) -> RedisCommand {
        RedisCommand(
            "XREAD", "COUNT", "\(Self.maxPieces)", "BLOCK",
            "\(Self.readWait.wholeMilliseconds)", "STREAMS", replies, position.description)
    }
}

extension RedisCommand {
    fileprivate mutating func append(_ fields: [JobField]) {
        for field in fields {
            append(field.name)
            append(field.value)
        }
    }
}
