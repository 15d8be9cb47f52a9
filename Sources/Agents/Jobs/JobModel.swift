// A language model whose turns are jobs of a Redis stream (`kind: redis-stream`): agents are
// workers that take turns from the stream, not services that are called. JobDesk talks to Redis for
// each shard. This file decides how a turn continues whose worker dies.
//
// Invariant: a turn is run again only where nothing of its answer has reached the session, and only
// after a script has seen that its worker's heart has stopped. All deltas come from one run.

import Codec
import Session
import Synchronization

/// Answers turns by workers of a consumer group.
final class JobModel: LanguageModel {
    /// Bytes of the functions that wait for a worker's words.
    private static let taskBytes = 4_000

    /// The name for operators.
    static let title = "workers of a Redis stream"

    /// Turns that were run again, and those that were lost with their worker.
    private struct Losses {
        var repeats = 0
        var lost = 0
    }

    private let service: ModelService
    private let address: RedisAddress?
    private let request: JobRequest
    /// Writes the conversations.
    private let form: ChatCompletions
    /// The desks by shard, and how many were begun.
    private struct Desks {
        var byShard: [ObjectIdentifier: JobDesk] = [:]
        var count = 0
    }

    private let desks = Mutex(Desks())
    private let losses = Mutex(Losses())
    /// The name of this server's reply streams.
    private let reader = String(UInt64.random(in: .min ... .max), radix: 36)

    /// Creates a model.
    /// - Parameter service: its base URL is that of the Redis server, its key the password.
    init(_ service: ModelService) {
        self.service = service
        address = Self.address(of: service)
        form = ChatCompletions(service)
        request = JobRequest(
            queue: service.jobs, service: service,
            audience: service.audience ?? address?.description ?? "")
    }

    var hearsAudio: Bool { service.hearsAudio }
    var seesImages: Bool { service.seesImages }

    /// The turns that were run again or lost; ModelRouter counts all others.
    var providers: [ModelProviderCounts] {
        var counts = ModelProviderCounts(name: service.name)
        (counts.repeats, counts.lost) = losses.withLock { ($0.repeats, $0.lost) }
        return [counts]
    }

    private static func address(of service: ModelService) -> RedisAddress? {
        guard let key = service.apiKey, !key.isEmpty,
            let scheme = service.baseURL.firstRange(of: "://"), !service.baseURL.contains("@")
        else { return RedisAddress(service.baseURL) }
        let digits = Array("0123456789ABCDEF".utf8)
        var password = ""
        for byte in key.utf8 {
            let escape = [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            password += String(decoding: escape, as: UTF8.self)
        }
        return RedisAddress(
            "\(service.baseURL[..<scheme.upperBound]):\(password)@"
                + service.baseURL[scheme.upperBound...])
    }

    /// The desk of the shard that a task runs on.
    private func desk(on host: any AgentHost) throws(AgentError) -> JobDesk {
        let shard = host.shard
        let (desk, number) = desks.withLock { desks in
            if desks.byShard[shard] == nil { desks.count += 1 }
            return (desks.byShard[shard], desks.count)
        }
        if let desk { return desk }
        guard let address else {
            throw .unavailable(message: "The address of the agents' Redis cannot be read.")
        }
        // XREAD waits, so each provider needs a link of its own for it.
        let scripts = JobScripts(
            queue: service.jobs, replies: service.jobs.replies(to: "\(reader)-\(number)"))
        let new = JobDesk(
            scripts: scripts, commands: try host.redis(at: address, for: "jobs"),
            replies: try host.redis(at: address, for: "replies-\(service.name)"))
        return desks.withLock { desks in
            let first = desks.byShard[shard] ?? new
            desks.byShard[shard] = first
            return first
        }
    }

    /// Looks whether Redis answers.
    func checkServices(on host: any AgentHost) async {
        guard !service.name.isEmpty, let address else { return }
        do {
            _ = try await host.redis(at: address, for: "jobs").send(RedisCommand("PING"))
        } catch {
            var fault = ServiceFault(
                service: service.name, url: address.description, reason: "\(error)")
            fault.advice = "check that Redis runs, and the address and password of the provider"
            host.report(fault)
        }
    }

    /// Asks for the turn, and passes on a worker's words. Where the worker dies before its first
    /// word has reached the session, the turn is run again.
    /// - Throws: `.upstream` where no worker takes the turn, or Redis does not answer;
    ///   `.rateLimited` where too many turns wait; `.agentLost` where the worker has died.
    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        do {
            try await answer(request, on: host, reply: reply)
        } catch {
            if !service.name.isEmpty, !Task.isCancelled, let error = error as? AgentError {
                var fault = ServiceFault(
                    service: service.name, url: address?.description ?? "", reason: error.detail)
                fault.advice = "check the workers of the stream, and that Redis answers"
                host.report(fault)
            }
            throw error
        }
    }

    private func answer(
        _ request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let desk = try desk(on: host)
        let start = await host.now()
        var turn = JobTurn(
            request: request, name: request.turn?.responseID ?? desk.makeName(of: reader),
            firstPiece: service.firstTokenTimeout.map { start + $0 })
        var job = desk.makeName(of: turn.name)
        host.charge(Self.taskBytes)
        defer {
            host.charge(-Self.taskBytes)
            desk.close(job, isOver: turn.isOver)
        }
        try await open(job, of: turn, instead: nil, at: desk, on: host)
        while true {
            let news = await desk.news(of: job)
            try Task.checkCancellation()
            for delta in news.deltas {
                turn.hasDelivered = true
                try await reply(delta)
            }
            switch news.end {
            case nil: break
            case .completed:
                turn.isOver = true
                return
            case .failed(let error): throw error
            case .lost, .gone:
                let lost = LostJob(
                    name: job, entry: desk.entry(of: job) ?? "", isGone: news.end == .gone)
                if let next = try await repeatLost(lost, of: &turn, at: desk, on: host) {
                    job = next
                }
            }
        }
    }

    /// The worker of a run seems to have died: the turn is run again, or fails.
    /// - Returns: the name of the next run; nil where the worker is alive, or has answered.
    private func repeatLost(
        _ job: LostJob, of turn: inout JobTurn, at desk: JobDesk, on host: any AgentHost
    ) async throws -> String? {
        guard !turn.hasDelivered, turn.run < service.jobs.attempts else {
            let reason = turn.hasDelivered ? "spoken" : "attempts"
            let answer = try await desk.send(desk.scripts.bury(job, reason: reason))
            guard answer.integer != 0 else { return nil }
            turn.isOver = true
            losses.withLock { $0.lost += 1 }
            throw AgentError.agentLost(hasSpoken: turn.hasDelivered)
        }
        turn.run += 1
        let next = desk.makeName(of: turn.name)
        do {
            try await open(next, of: turn, instead: job, at: desk, on: host)
        } catch JobDesk.Refusal.isAlive {
            turn.run -= 1
            return nil
        } catch {
            desk.close(next, isOver: false)
            throw error
        }
        losses.withLock { $0.repeats += 1 }
        desk.close(job.name, isOver: true)
        return next
    }

    /// Asks for one run.
    /// - Parameter instead: the run whose worker has died.
    private func open(
        _ job: String, of turn: JobTurn, instead lost: LostJob?, at desk: JobDesk,
        on host: any AgentHost
    ) async throws {
        let request = turn.request
        let model = service.model ?? request.model
        // Audio must be decoded and images are megabytes: a worker thread does that.
        let isLong = request.messages.neededAbilities != ModelAbilities()
        let body =
            isLong
            ? try await host.compute { [form] in form.encoded(request, model: model, form: []) }
            : form.encoded(request, model: model, form: [])
        var charged = 0
        host.charge(body.heapBytes, insteadOf: &charged)
        defer { host.charge(-charged) }
        let fields = self.request.fields(
            of: request, body: body, job: job, run: turn.run, turn: turn.name,
            replies: desk.scripts.replies)
        let now = await host.now()
        let limit = service.totalTimeout ?? .seconds(600)
        let command =
            if let lost {
                desk.scripts.claim(lost, as: fields, within: limit)
            } else {
                desk.scripts.ask(fields, within: limit)
            }
        try await desk.open(
            job, command, isClaim: lost != nil,
            limits: JobLimits(
                pickup: now + service.jobs.pickup, firstPiece: turn.firstPiece,
                silence: service.timeout, total: service.totalTimeout.map { now + $0 }),
            on: host)
    }
}

/// A turn and its state.
private struct JobTurn {
    let request: ModelRequest
    /// The same for every run: the key by which workers recognise it.
    let name: String
    /// When the wait for the first piece times out. Nil sets no limit.
    let firstPiece: Instant?
    /// Runs so far.
    var run = 1
    /// Whether a part of its answer has reached the session.
    var hasDelivered = false
    /// Whether Redis does not have it any more.
    var isOver = false
}
