// The places of a provider: who waits, who is next, who is refused and when it may come back. The
// test gives the places back, and sets the clock.

import Session
import Synchronization
import Testing

@testable import Agents

/// A host whose clock is set by the test, and on which nobody waits to the end but by the test's
/// word.
private final class PatientHost: HostWithoutServices {
    private let time = Mutex(Instant(nanoseconds: 0))
    private let isLate = Atomic(false)

    func now() async -> Instant { time.withLock { $0 } }

    func pass(_ duration: Duration) { time.withLock { $0 = $0 + duration } }

    /// Ends the waits.
    func endWaits() { isLate.store(true, ordering: .relaxed) }

    func sleep(for duration: Duration) async throws {
        while !isLate.load(ordering: .relaxed) {
            try Task.checkCancellation()
            await Task.yield()
        }
    }
}

/// A model that answers when the test says so.
private final class HeldModel: LanguageModel {
    private let allowed = Mutex<Set<String>>([])
    private let begun = Mutex<[String]>([])

    /// Whose requests have begun.
    var order: [String] { begun.withLock { $0 } }

    func finish(_ name: String) { allowed.withLock { _ = $0.insert(name) } }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let name = request.instructions
        begun.withLock { $0.append(name) }
        if name == "limit" { throw AgentError.rateLimited(retryAfter: .seconds(30)) }
        while !allowed.withLock({ $0.contains(name) }) {
            try Task.checkCancellation()
            await Task.yield()
        }
        try await reply(.text(name))
    }
}

@Suite(.timeLimit(.minutes(5))) struct RequestQueueTests {
    private let host = PatientHost()
    private let model = HeldModel()

    private func router(
        _ queue: RequestQueue, fallback: (any LanguageModel)? = nil,
        health: ProviderHealth = ProviderHealth()
    ) -> ModelRouter {
        var providers = [
            ModelProvider(
                name: "a", model: model, fallback: fallback == nil ? nil : "b", health: health,
                queue: queue)
        ]
        if let fallback { providers.append(ModelProvider(name: "b", model: fallback)) }
        return ModelRouter(providers: providers, standard: "a")
    }

    /// A request of a caller, which is the first letter of its name.
    private func ask(_ name: String, _ router: ModelRouter) -> Task<String, any Error> {
        Task { [host] in
            var request = ModelRequest(model: "m", instructions: name, messages: [])
            request.turn = TurnIdentity(
                sessionID: "s", responseID: "r", subject: String(name.prefix(1)))
            return try await router.deltas(for: request, on: host).text
        }
    }

    private func counts(_ router: ModelRouter) -> [Int] {
        let counts = router.providers[0]
        return [counts.inFlight, counts.waiting, counts.refused]
    }

    @Test func withoutALimitNobodyWaits() async throws {
        let router = router(RequestQueue(maxWaiting: 0))
        let tasks = (0..<20).map { ask("a\($0)", router) }
        try await yield { model.order.count == 20 }
        #expect(counts(router) == [20, 0, 0])
        for (number, task) in tasks.enumerated() {
            model.finish("a\(number)")
            #expect(try await task.value == "a\(number)")
        }
        #expect(counts(router) == [0, 0, 0])
    }

    /// Starts the requests one after another; the first takes the only place.
    private func line(
        _ names: [String], _ router: ModelRouter
    ) async throws -> [Task<String, any Error>] {
        var tasks: [Task<String, any Error>] = []
        for (number, name) in names.enumerated() {
            tasks.append(ask(name, router))
            try await yield {
                number == 0 ? model.order.count == 1 : counts(router)[1] == number
            }
        }
        return tasks
    }

    @Test func callersTakeTurnsAndTheRequestsOfOneKeepTheirOrder() async throws {
        let router = router(RequestQueue(concurrency: 1))
        let names = ["a0", "a1", "a2", "a3", "b1", "b2", "c1"]
        let tasks = try await line(names, router)
        #expect(counts(router) == [1, 6, 0])
        for name in names { model.finish(name) }
        for task in tasks { _ = try await task.value }
        #expect(model.order == ["a0", "a1", "b1", "c1", "a2", "b2", "a3"])
        #expect(counts(router) == [0, 0, 0])
        #expect(router.providers[0].completed == 7 && router.providers[0].failed == 0)
    }

    @Test func aFullQueueRefusesAndSaysWhenToComeBack() async throws {
        let router = router(RequestQueue(concurrency: 1, maxWaiting: 2))
        // The average of earlier requests: four seconds.
        let first = ask("z", router)
        try await yield { model.order == ["z"] }
        host.pass(.seconds(4))
        model.finish("z")
        _ = try await first.value
        let waiting = [ask("a", router), ask("b", router), ask("c", router)]
        try await yield { counts(router) == [1, 2, 0] }
        // Two wait, so the third place is free after three requests.
        await #expect(throws: AgentError.rateLimited(retryAfter: .seconds(12))) {
            try await ask("d", router).value
        }
        #expect(counts(router) == [1, 2, 1])
        #expect(router.providers[0].failed == 0, "a refusal is not the provider's failure")
        for name in ["a", "b", "c"] { model.finish(name) }
        for task in waiting { _ = try await task.value }
    }

    @Test func aFullQueueTakesPlacesFromTheCallerWithTheMost() async throws {
        let router = router(RequestQueue(concurrency: 1, maxWaiting: 4))
        let tasks = try await line(["a0", "a1", "a2", "a3", "a4"], router)
        let others = ["b1", "b2"].map { ask($0, router) }
        // The newest of a's go.
        for evicted in tasks[3...] {
            await #expect(throws: AgentError.rateLimited(retryAfter: .seconds(4))) {
                try await evicted.value
            }
        }
        #expect(counts(router) == [1, 4, 2])
        // Each has two now: nobody's place is taken, and the newcomer is refused.
        await #expect(throws: AgentError.self) { try await ask("b3", router).value }
        for name in ["a0", "a1", "a2", "b1", "b2"] { model.finish(name) }
        for task in tasks[..<3] + others { _ = try await task.value }
        #expect(counts(router) == [0, 0, 3])
    }

    @Test(arguments: [
        (Duration.milliseconds(10), 1), (.seconds(3), 3), (.milliseconds(3_001), 4),
        (.seconds(600), 60),
    ])
    func theEstimateIsBounded(time: Duration, seconds: Int) async throws {
        let queue = RequestQueue(concurrency: 1, maxWaiting: 0)
        #expect(try await !queue.enter(as: "a", on: host))
        queue.leave(since: Instant(nanoseconds: 0), at: Instant(nanoseconds: 0) + time)
        #expect(try await !queue.enter(as: "a", on: host))
        let error = await #expect(throws: AgentError.self) {
            _ = try await queue.enter(as: "a", on: host)
        }
        #expect(error?.retryAfterSeconds == seconds)
        #expect(error?.code == "rate_limit_exceeded")
        #expect(
            error?.message == "The model has too many requests now; try again in \(seconds) s.")
    }

    @Test func aRefusalIsAsLateAsTheServiceItselfWants() async throws {
        let queue = RequestQueue(concurrency: 1, maxWaiting: 0)
        queue.handleLimited(until: .milliseconds(90_000))
        _ = try await queue.enter(as: "a", on: host)
        await #expect(throws: AgentError.rateLimited(retryAfter: .seconds(90))) {
            _ = try await queue.enter(as: "a", on: host)
        }
    }

    @Test func whatTheServiceWantsIsKnownToTheNext() async throws {
        let router = router(RequestQueue(concurrency: 1, maxWaiting: 0))
        await #expect(throws: AgentError.rateLimited(retryAfter: .seconds(30))) {
            try await ask("limit", router).value
        }
        #expect(router.providers[0].failed == 1)
        let first = ask("a", router)
        try await yield { model.order.count == 2 }
        host.pass(.seconds(10))
        await #expect(throws: AgentError.rateLimited(retryAfter: .seconds(20))) {
            try await ask("b", router).value
        }
        model.finish("a")
        _ = try await first.value
    }

    @Test func aCancelledRequestLeavesTheQueueAtOnce() async throws {
        let router = router(RequestQueue(concurrency: 1, maxWaiting: 1))
        let tasks = try await line(["a", "b"], router)
        tasks[1].cancel()
        await #expect(throws: CancellationError.self) { try await tasks[1].value }
        #expect(counts(router) == [1, 0, 0])
        // Its place in the queue is free, and it gets no turn.
        let next = ask("c", router)
        try await yield { counts(router)[1] == 1 }
        for name in ["a", "c"] { model.finish(name) }
        #expect(try await next.value == "c")
        #expect(model.order == ["a", "c"])
        #expect(counts(router) == [0, 0, 0])
    }

    @Test func aCancelledAnswerGivesItsPlaceToTheNext() async throws {
        let router = router(RequestQueue(concurrency: 1))
        let tasks = try await line(["a", "b"], router)
        tasks[0].cancel()
        try await yield { model.order == ["a", "b"] }
        model.finish("b")
        #expect(try await tasks[1].value == "b")
        #expect(counts(router) == [0, 0, 0])
    }

    @Test func aRequestThatWaitsTooLongIsRefused() async throws {
        let router = router(RequestQueue(concurrency: 1))
        let tasks = try await line(["a", "b"], router)
        host.endWaits()
        await #expect(throws: AgentError.rateLimited(retryAfter: .seconds(1))) {
            try await tasks[1].value
        }
        #expect(counts(router) == [1, 0, 1])
        model.finish("a")
        #expect(try await tasks[0].value == "a")
        #expect(counts(router) == [0, 0, 1])
    }

    @Test func theFallbackTakesOverWhereTheQueueIsFull() async throws {
        let spare = HeldModel()
        spare.finish("b")
        let router = router(RequestQueue(concurrency: 1, maxWaiting: 0), fallback: spare)
        let first = ask("a", router)
        try await yield { model.order == ["a"] }
        #expect(try await ask("b", router).value == "b")
        #expect(spare.order == ["b"])
        #expect(router.providers.map(\.fallbacks) == [0, 1])
        #expect(router.providers.map(\.refused) == [1, 0])
        model.finish("a")
        _ = try await first.value
    }

    @Test func aProviderThatIsPausedWhileARequestWaitsIsNotAsked() async throws {
        let health = ProviderHealth(maxFailures: 1)
        let spare = HeldModel()
        spare.finish("b")
        let router = router(RequestQueue(concurrency: 1), fallback: spare, health: health)
        let tasks = try await line(["a", "b"], router)
        health.handleFailed(.ordinary, isItsFault: true, at: .milliseconds(0))
        tasks[0].cancel()
        #expect(try await tasks[1].value == "b")
        #expect(model.order == ["a"] && spare.order == ["b"])
        #expect(counts(router) == [0, 0, 0])
    }

    @Test func aRefusedTrialLeavesTheTrialToTheNext() async throws {
        let health = ProviderHealth(maxFailures: 1, pause: .seconds(30))
        let spare = HeldModel()
        let queue = RequestQueue(concurrency: 1, maxWaiting: 0)
        let router = router(queue, fallback: spare, health: health)
        let first = ask("a", router)
        try await yield { model.order == ["a"] }
        health.handleFailed(.ordinary, isItsFault: true, at: .milliseconds(0))
        host.pass(.seconds(31))
        spare.finish("b")
        #expect(try await ask("b", router).value == "b")
        #expect(health.permit(at: await host.now()) == .trial)
        first.cancel()
        _ = try? await first.value
    }

    /// Many requests that come, are cancelled and end on many threads leave no place taken.
    @Test func noPlaceIsLostOrGivenTwice() async throws {
        let queue = RequestQueue(concurrency: 3, maxWaiting: 20)
        let places = Collected<Int>()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<2_000 {
                group.addTask { [host] in
                    let task = Task {
                        _ = try await queue.enter(as: "\(number % 7)", on: host)
                        places.append(queue.counts.inFlight)
                        for _ in 0..<(number % 5) { await Task.yield() }
                        queue.leave(since: nil, at: .milliseconds(0))
                    }
                    if number % 3 == 0 { task.cancel() }
                    _ = try? await task.value
                }
            }
        }
        #expect(places.all.allSatisfy { (1...3).contains($0) })
        #expect(queue.counts.inFlight == 0 && queue.counts.waiting == 0)
    }
}
