// Which provider answers, when a fallback takes over, and when a provider is paused. The providers
// are scripted, and the test sets the clock.

import Session
import Synchronization
import Testing

@testable import Agents

/// A provider that answers with its name, or fails as scripted.
private final class ScriptedProvider: LanguageModel {
    /// The outcomes of the requests in order; nil: the request is answered.
    private let failures: Mutex<[AgentError?]>
    private let requests = Mutex(0)
    private let words: [String]
    let seesImages: Bool

    var asked: Int { requests.withLock { $0 } }

    /// - Parameter words: the text before it fails.
    init(_ failures: [AgentError?] = [], saying words: [String] = [], seesImages: Bool = false) {
        self.failures = Mutex(failures)
        self.words = words
        self.seesImages = seesImages
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        requests.withLock { $0 += 1 }
        for word in words { try await reply(.text(word)) }
        if let failure = failures.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
            throw failure
        }
        try await reply(.text("."))
    }
}

/// A host whose clock is set by the test.
private final class ClockHost: HostWithoutServices {
    private let time = Mutex(Instant(nanoseconds: 0))
    private let sent = Mutex(0)

    /// Requests so far.
    var requests: Int { sent.withLock { $0 } }

    func now() async -> Instant { time.withLock { $0 } }

    func pass(_ duration: Duration) { time.withLock { $0 = $0 + duration } }

    /// Ends at once and moves the clock.
    func sleep(for duration: Duration) async throws { pass(duration) }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        sent.withLock { $0 += 1 }
        return EndlessPings()
    }
}

/// An answer that consists of pings without end.
private final class EndlessPings: UpstreamResponse {
    let status = 200

    func nextChunk() async throws -> [UInt8]? {
        try Task.checkCancellation()
        await Task.yield()
        return Array("event: ping\ndata: {\"type\":\"ping\"}\n\n".utf8)
    }
}

@Suite struct ModelRouterTests {
    private let down = AgentError.upstream(status: 503, message: "")

    private func request(_ model: String, _ messages: [ModelMessage] = [.user("Hi")])
        -> ModelRequest
    {
        ModelRequest(model: model, messages: messages)
    }

    private func patterns(_ texts: String...) -> [ModelNamePattern] {
        texts.compactMap { ModelNamePattern($0) }
    }

    @Test(arguments: [
        ("claude-*", "claude-x", true), ("claude-*", "claude", false), ("*", "", true),
        ("gpt", "gpt", true), ("gpt", "gpt-4", false),
    ])
    func aPatternIsANameOrABeginning(pattern: String, name: String, matches: Bool) throws {
        #expect(try #require(ModelNamePattern(pattern)).matches(name) == matches)
    }

    @Test(arguments: ["", "a*b", "**"])
    func otherPatternsAreNone(text: String) { #expect(ModelNamePattern(text) == nil) }

    @Test func theFirstMatchingPatternSelectsAndTheDefaultAnswersOtherNames() async throws {
        let models = (0..<3).map { _ in ScriptedProvider() }
        let router = ModelRouter(
            providers: [
                ModelProvider(name: "a", patterns: patterns("x-1", "y"), model: models[0]),
                ModelProvider(name: "b", patterns: patterns("x-*"), model: models[1]),
                ModelProvider(name: "c", model: models[2]),
            ], standard: "c")
        for name in ["x-1", "x-2", "x-3", "other", "y"] {
            _ = try await router.deltas(for: request(name), on: ClockHost())
        }
        #expect(models.map(\.asked) == [2, 2, 1])
        #expect(router.providers.map(\.completed) == [2, 2, 1])
    }

    @Test func aNameWithoutAProviderIsRefused() async {
        let model = ScriptedProvider()
        let router = ModelRouter(
            providers: [ModelProvider(name: "a", patterns: patterns("x"), model: model)])
        await #expect(throws: AgentError.unknownModel(message: "This server has no model 'y'.")) {
            try await router.deltas(for: request("y"), on: ClockHost())
        }
        #expect(router.abilities(of: "y") == ModelAbilities())
    }

    @Test func abilitiesAreThoseOfTheSelectedProvider() {
        let router = ModelRouter(
            providers: [
                ModelProvider(
                    name: "a", patterns: patterns("x"), model: ScriptedProvider(seesImages: true)),
                ModelProvider(name: "b", model: ScriptedProvider()),
            ], standard: "b")
        #expect(router.abilities(of: "x").seesImages)
        #expect(!router.abilities(of: "y").seesImages)
    }

    private func pair(
        _ first: ScriptedProvider, _ second: ScriptedProvider,
        health: ProviderHealth = ProviderHealth()
    ) -> ModelRouter {
        ModelRouter(
            providers: [
                ModelProvider(
                    name: "a", patterns: patterns("*"), model: first, fallback: "b",
                    health: health),
                // A circle of fallbacks ends.
                ModelProvider(name: "b", model: second, fallback: "a"),
            ])
    }

    @Test(arguments: [0, 401, 404, 429, 500, 503, 529])
    func theFallbackTakesOverBeforeTheFirstWord(status: Int) async throws {
        let first = ScriptedProvider([.upstream(status: status, message: "")])
        let second = ScriptedProvider(saying: ["b"])
        let router = pair(first, second)
        #expect(try await router.deltas(for: request("m"), on: ClockHost()).text == "b.")
        #expect(router.providers.map(\.failed) == [1, 0])
        #expect(router.providers.map(\.completed) == [0, 1])
        #expect(router.providers.map(\.fallbacks) == [0, 1])
    }

    /// The same as in test_models.py, on the test's clock: the first provider sends no word, and
    /// its first-token limit ends the wait.
    @Test(.timeLimit(.minutes(5)))
    func theFallbackTakesOverAfterTheFirstTokenTimeout() async throws {
        var service = ModelService(baseURL: "http://a.test")
        service.firstTokenTimeout = .milliseconds(400)
        service.retries = RetryPolicy()
        let spare = ScriptedProvider(saying: ["hello"])
        let router = ModelRouter(
            providers: [
                ModelProvider(
                    name: "a", patterns: patterns("*"),
                    model: ModelServiceKind.anthropic.model(at: service), fallback: "b"),
                ModelProvider(name: "b", model: spare),
            ])
        let host = ClockHost()
        let deltas = try await router.deltas(for: request("m"), on: host)
        #expect(deltas == [.text("hello"), .text(".")])
        #expect(host.requests == 1 && spare.asked == 1)
        #expect(await host.now() == .milliseconds(400))
        #expect(router.providers[1].fallbacks == 1)
    }

    @Test func afterTheFirstWordThereIsNoFallback() async {
        let second = ScriptedProvider()
        let router = pair(ScriptedProvider([down], saying: ["Once"]), second)
        await #expect(throws: down) {
            try await router.deltas(for: request("m"), on: ClockHost())
        }
        #expect(second.asked == 0)
    }

    @Test(arguments: [AgentError.upstream(status: 400, message: ""), .overloaded])
    func aFaultyRequestIsNotSentToTheFallback(error: AgentError) async {
        let second = ScriptedProvider()
        let router = pair(ScriptedProvider([error]), second)
        await #expect(throws: error) {
            try await router.deltas(for: request("m"), on: ClockHost())
        }
        #expect(second.asked == 0)
    }

    @Test func theLastErrorIsThrown() async {
        let last = AgentError.upstream(status: 500, message: "b")
        let router = pair(ScriptedProvider([down]), ScriptedProvider([last]))
        await #expect(throws: last) {
            try await router.deltas(for: request("m"), on: ClockHost())
        }
    }

    @Test func aFallbackWithoutVisionIsSkippedForImages() async {
        let blind = ScriptedProvider()
        let router = pair(ScriptedProvider([down], seesImages: true), blind)
        let image = ModelMessage.userParts([.image(url: "https://a.test", detail: .auto)])
        await #expect(throws: down) {
            try await router.deltas(for: request("m", [image]), on: ClockHost())
        }
        #expect(blind.asked == 0)
    }

    @Test func failuresInARowPauseAProviderUntilATrial() async throws {
        let first = ScriptedProvider([down, nil, down, down, down])
        let router = pair(
            first, ScriptedProvider(), health: ProviderHealth(maxFailures: 2, pause: .seconds(30)))
        let host = ClockHost()
        func respond(_ count: Int) async throws {
            for _ in 0..<count { _ = try await router.deltas(for: request("m"), on: host) }
        }
        // A success in between resets the count.
        try await respond(4)
        #expect(first.asked == 4)
        #expect(router.providers[0].isPaused)
        try await respond(5)
        #expect(first.asked == 4)
        #expect(router.providers[0].skipped == 5)
        #expect(router.providers[1].fallbacks == 8)
        // The trial fails.
        host.pass(.seconds(30))
        try await respond(3)
        #expect(first.asked == 5)
        host.pass(.seconds(30))
        try await respond(3)
        #expect(first.asked == 8)
        #expect(!router.providers[0].isPaused)
    }

    @Test func duringATrialTheOtherRequestsSkipTheProvider() {
        let health = ProviderHealth(maxFailures: 1, pause: .seconds(30))
        health.handleFailed(.ordinary, isItsFault: true, at: .milliseconds(0))
        #expect(health.permit(at: .milliseconds(29_999)) == nil)
        #expect(health.permit(at: .milliseconds(30_000)) == .trial)
        #expect(health.permit(at: .milliseconds(30_001)) == nil)
        health.handleAnswered()
        #expect(health.permit(at: .milliseconds(30_002)) == .ordinary)
    }

    @Test(arguments: [404, 405, 415, 431])
    func requestsThatTheProviderCannotServeDoNotPauseIt(status: Int) async throws {
        let first = ScriptedProvider(
            Array(repeating: .upstream(status: status, message: ""), count: 5))
        let router = pair(first, ScriptedProvider(saying: ["b"]))
        for _ in 0..<5 {
            #expect(try await router.deltas(for: request("m"), on: ClockHost()).text == "b.")
        }
        #expect(!router.providers[0].isPaused)
        #expect(try await router.deltas(for: request("m"), on: ClockHost()).text == ".")
        #expect(first.asked == 6)
    }

    @Test func aTrialWithoutAResultMakesTheNextRequestTheTrial() {
        let health = ProviderHealth(maxFailures: 1, pause: .seconds(30))
        health.handleFailed(.ordinary, isItsFault: true, at: .milliseconds(0))
        #expect(health.permit(at: .milliseconds(30_000)) == .trial)
        health.handleCancelled(.trial, hasAnswered: false, at: .milliseconds(30_100))
        #expect(health.permit(at: .milliseconds(30_101)) == .trial)
        health.handleFailed(.trial, isItsFault: false, at: .milliseconds(30_200))
        #expect(health.permit(at: .milliseconds(30_201)) == .trial)
        // Requests that began before the pause do not end it.
        health.handleCancelled(.ordinary, hasAnswered: false, at: .milliseconds(30_300))
        #expect(health.permit(at: .milliseconds(30_301)) == nil)
        // A trial that is cancelled during its answer has shown that the provider works.
        health.handleCancelled(.trial, hasAnswered: true, at: .milliseconds(30_400))
        #expect(health.permit(at: .milliseconds(30_401)) == .ordinary)
    }

    @Test func aProviderWithoutAFallbackIsUsedEvenWhilePaused() async {
        let only = ScriptedProvider(Array(repeating: down, count: 9))
        let router = ModelRouter(
            providers: [
                ModelProvider(
                    name: "a", patterns: patterns("*"), model: only,
                    health: ProviderHealth(maxFailures: 1, pause: .seconds(30)))
            ])
        for _ in 0..<3 {
            await #expect(throws: down) {
                try await router.deltas(for: request("m"), on: ClockHost())
            }
        }
        #expect(only.asked == 3)
    }

    @Test(.timeLimit(.minutes(5)))
    func aServiceThatOnlyPingsFailsAfterTheFirstTokenTimeout() async {
        var service = ModelService(baseURL: "http://a.test")
        service.firstTokenTimeout = .milliseconds(250)
        service.retries = RetryPolicy()
        let model = ModelServiceKind.anthropic.model(at: service)
        let host = ClockHost()
        await #expect(
            throws: AgentError.upstream(
                status: 0, message: "The model server said nothing within 250 ms.")
        ) {
            try await model.deltas(for: request("m"), on: host)
        }
        // There is no retry after the limit.
        #expect(host.requests == 1)
    }
}
