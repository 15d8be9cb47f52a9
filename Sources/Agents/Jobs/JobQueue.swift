// The settings of turns as jobs: which stream of a Redis server they wait in, and how long anything
// about them may take. JobModel uses them; docs/agents.md describes the stream.

import Session

/// A stream of jobs, and a group of workers that share them.
public struct JobQueue: Equatable, Sendable {
    /// The stream where none is named.
    public static let defaultStream = "parley:jobs"
    /// The group where none is named.
    public static let defaultGroup = "workers"

    /// The key of the stream. The names of all other keys begin with it.
    public var stream = JobQueue.defaultStream
    /// The consumer group whose workers answer.
    public var group = JobQueue.defaultGroup
    /// How long a worker keeps a job without a heartbeat. 5 s: workers send one each second, and a
    /// user waits no longer for the next worker.
    public var lease = Duration.seconds(5)
    /// How often a job is given to workers that die, before it is a dead letter. 3: one worker may be
    /// killed by chance, and a second by a deploy.
    public var attempts = 3
    /// Jobs in the stream at most, those that are worked on included. 1,000: with more a user would
    /// wait too long for a worker.
    public var maxJobs = 1_000
    /// How long a job may wait for a worker. 10 s: a conversation waits no longer.
    public var pickup = Duration.seconds(10)

    /// Creates the defaults.
    public init() {}

    /// Whether a text can be the name of a stream or a group: 1 to 128 visible ASCII characters.
    public static func isName(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    /// The key of a job's lease: who works on it, as long as its heart beats.
    func lease(of job: String) -> String { "\(stream):lease:\(job)" }
    /// The key of the reply stream of one shard.
    func replies(to reader: String) -> String { "\(stream):replies:\(reader)" }
    /// The key of the dead letters.
    var deadLetters: String { "\(stream):dead" }
}
