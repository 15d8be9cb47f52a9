// Commands of other threads for a shard. They lie in its mailbox, which wakes it, and are run in the
// order in which they were posted, between reading and the deadlines of a tick.
//
// The closures that post are `Sendable` and refer to the mailbox alone, never the shard: they may be
// called at any time, also when the shard is gone.

import Codec
import Session
import Synchronization

/// A request of another thread.
enum ShardCommand: Sendable {
    /// Say that the shard takes ticks.
    case noteRunning(@Sendable () -> Void)
    /// Stop accepting, close every WebSocket with this code, and end.
    case stop(WebSocketCloseCode)
    /// Begin to drain after a while; see Shutdown.
    case drain(after: Duration)
    /// Take over a connection that a sibling accepted.
    case adopt(IOHandle, of: NetworkAddress)
    /// Make new connections from another TLS context.
    case renew(TLSContext)
    /// More of the reply has come that a connection shows.
    case continueAnswer(EventToken)
    /// The readers of a text request's reply have come, gone or caught up.
    case reviewTextRequest(EventToken)
    /// Look through the sessions for an operator.
    case answerSurvey(SurveyQuestion)
    /// Another shard has answered a survey of this one.
    case noteReport(SurveyReport, for: SurveyID)
    /// Other nodes have answered a survey of this one.
    case noteNodes([NodeAnswer], for: SurveyID)
    /// The keeper of ended sessions has answered a question of this shard.
    case noteFinding(RecordFinding, for: RecordQuestionID)
    /// Something has come that an operator's connection of this shard waits for.
    case showOperator(OperatorNews, on: EventToken)
    /// The process takes too much memory, and this shard may have the largest ledger.
    case judgeMemory
    /// Another shard has given a place to a session. A session that waits here must end to free
    /// that place.
    case endWaiting
    /// Another shard has something to say about a call or a sideband.
    case sideband(SidebandMessage)
    /// A connection comes over from another shard, with a client that comes back.
    case takeIn(ReturningClient)
    /// Another server has claimed a session, which this shard may have.
    case fenced(sessionID: String, fence: UInt64)
    /// Something has changed that is reported to servers with a common store.
    case planReport
    /// The store has answered a question for a client secret.
    case noteSecret(Result<[UInt8], RedisError>, for: SecretLookupID)
}

/// A shard's commands: the mailbox, and the list into which it is emptied.
struct ShardInbox {
    /// Where other threads post.
    let mailbox: Mailbox<ShardCommand>
    private var taken: [ShardCommand] = []

    /// - Parameter wake: wakes the shard; any thread.
    init(wake: @escaping @Sendable () -> Void) { mailbox = Mailbox(wake: wake) }

    /// Takes the commands that were posted. Without a command the cost is one load.
    /// - Returns: the commands in order, or nil. They are to be given back when they have been run.
    @inline(__always)
    mutating func take() -> [ShardCommand]? {
        guard mailbox.take(into: &taken) else { return nil }
        var commands: [ShardCommand] = []
        swap(&commands, &taken)
        return commands
    }

    /// Takes the memory of a list back for the next one.
    mutating func giveBack(_ commands: consuming [ShardCommand]) {
        commands.removeAll(keepingCapacity: true)
        taken = commands
    }
}

extension Shard {
    /// Stops accepting, closes every WebSocket with `code`, and ends when all are closed or
    /// `closeTimeout` has passed. Any thread.
    package var stop: @Sendable (_ code: WebSocketCloseCode) -> Void {
        { [mailbox = inbox.mailbox] code in mailbox.post(.stop(code)) }
    }

    /// Stops accepting, lets turns in flight finish, closes every WebSocket with 1012, and ends
    /// when all are closed; see Shutdown. Any thread.
    package var drain: @Sendable (_ delay: Duration) -> Void {
        { [mailbox = inbox.mailbox] delay in mailbox.post(.drain(after: delay)) }
    }

    /// Takes over a connection that a sibling accepted. Any thread.
    var adopt: @Sendable (_ handle: IOHandle, _ peer: NetworkAddress) -> Void {
        { [mailbox = inbox.mailbox] handle, peer in mailbox.post(.adopt(handle, of: peer)) }
    }

    /// Makes new connections from another TLS context; open ones keep theirs. Any thread.
    var renewTLS: @Sendable (_ context: TLSContext) -> Void {
        { [mailbox = inbox.mailbox] context in mailbox.post(.renew(context)) }
    }

    /// More of the reply has come that a connection shows. Any thread.
    var continueTextAnswer: @Sendable (_ connection: EventToken) -> Void {
        { [mailbox = inbox.mailbox] token in mailbox.post(.continueAnswer(token)) }
    }

    /// A shard has answered a survey of this one. Any thread.
    var noteReport: @Sendable (_ report: SurveyReport, _ survey: SurveyID) -> Void {
        { [mailbox = inbox.mailbox] report, survey in
            mailbox.post(.noteReport(report, for: survey))
        }
    }

    /// The readers of a text request's reply have come, gone or caught up. Any thread.
    var reviewTextRequest: @Sendable (_ request: EventToken) -> Void {
        { [mailbox = inbox.mailbox] token in mailbox.post(.reviewTextRequest(token)) }
    }

    /// Does this shard's part of the work that concerns all shards of the server: surveys, calls,
    /// and the process's memory.
    func joinServer() {
        let mailbox = inbox.mailbox
        services.directory.join(services.index) { mailbox.post($0) }
        services.memory.register(shard: services.index) { mailbox.post(.judgeMemory) }
        if services.index == 0, services.history != nil { continueHistory() }
    }

    /// Runs what other threads have asked for since the last tick.
    func runCommands() {
        guard let commands = inbox.take() else { return }
        for command in commands { run(command) }
        inbox.giveBack(commands)
    }

    private func run(_ command: ShardCommand) {
        switch command {
        case .noteRunning(let answer): answer()
        case .stop(let code): beginStopping(with: code)
        case .drain(let delay): beginDraining(after: delay)
        case .adopt(let handle, let peer): takeOver(handle, of: peer)
        case .renew(let context): renew(context)
        case .continueAnswer(let token): continueAnswer(of: token)
        case .reviewTextRequest(let token): reviewTextRequest(at: token)
        case .answerSurvey(let question): questions.surveys.begin(question, at: now)
        case .noteReport(let report, let survey): handle(report, for: survey)
        case .noteNodes(let answers, let survey): handle(answers, for: survey)
        case .showOperator(let news, let token): handle(news, at: token)
        case .judgeMemory: judgeMemory()
        case .endWaiting: endWaitingForPlace()
        case .sideband(let message): handle(message)
        case .takeIn(let client): takeIn(client)
        case .fenced(let sessionID, let fence): handleFenced(sessionID, fence: fence)
        case .planReport: planReport()
        case .noteFinding(let finding, let id): handle(finding, for: id)
        case .noteSecret(let record, let id): handleSecret(record, for: id)
        }
    }
}

/// The shards of a server, as far as they can be asked. Any thread.
package final class ShardDirectory: Sendable {
    private let shards = Mutex<[Int: @Sendable (ShardCommand) -> Void]>([:])

    /// Without a shard.
    package init() {}

    /// A shard can be asked from now on.
    func join(_ index: Int, post: @escaping @Sendable (ShardCommand) -> Void) {
        shards.withLock { $0[index] = post }
    }

    /// A shard has ended.
    func leave(_ index: Int) { shards.withLock { $0[index] = nil } }

    /// The function that posts to one of them, or nil where it has ended, or there never was one.
    func post(to index: Int) -> (@Sendable (ShardCommand) -> Void)? {
        shards.withLock { $0[index] }
    }

    /// Ways to ask those that are there.
    var all: [@Sendable (ShardCommand) -> Void] { shards.withLock { Array($0.values) } }
}
