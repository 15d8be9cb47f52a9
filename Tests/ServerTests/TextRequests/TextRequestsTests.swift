// The life of text requests as values, without a shard: when a model is paused and goes on, when a
// request is removed, and what a deadline means.

import Codec
import Session
import Testing

@testable import Server

/// The text requests of one shard, and one of them.
private struct RequestWorld {
    static let limit = 1_000
    var requests: TextRequests
    let request: TextRequest
    let context = SessionContext(
        voiceActivityModel: nil, hasRecognizer: false, hasSynthesizer: false)

    init(resumeTimeout: Duration = .seconds(30), grantSeconds: Int = 0) throws {
        var settings = TextRequestSettings()
        settings.maxUnreadReplyBytes = Self.limit
        settings.resumeTimeout = resumeTimeout
        var credentials = CredentialSettings()
        credentials.maxSessionSeconds = grantSeconds
        requests = TextRequests(settings)
        let live = LiveSession(
            token: EventToken(.session, index: 0, generation: 0),
            session: VoiceSession(
                parameters: SessionParameters(model: "m"), context: context, seed: 1),
            caller: CallerTag(principal: nil, address: .unspecified))
        live.grant = try Caller.anonymous.grant(
            from: SessionPlaces(), nil, credentials, at: .milliseconds(0))
        request = TextRequest(
            live: live,
            log: ReplyLog(messageID: "msg_1", review: {}), chat: nil, client: .unspecified,
            at: .milliseconds(0))
        requests.insert(request)
    }

    /// Reviews the request with so many readers; the fastest has so many bytes to read.
    mutating func review(
        readers: Int = 1, unread: Int = 0, isOver: Bool = false, canBeResumed: Bool = false,
        at milliseconds: Int = 0
    ) -> TextRequestActions {
        let status = ReplyLog.Status(
            readers: readers, unreadBytes: unread, bytes: unread, isOver: isOver)
        return requests.review(
            request, status, at: .milliseconds(milliseconds), canBeResumed: canBeResumed)
    }
}

@Suite struct TextRequestsTests {
    @Test func aTokenMeansOneRequestAsLongAsThatIsThere() throws {
        var world = try RequestWorld()
        let token = world.request.token
        #expect(world.requests[token] === world.request && world.requests.openCount == 1)
        #expect(world.requests.all.count == 1)
        _ = world.requests.remove(world.request)
        #expect(world.requests[token] == nil && world.requests.openCount == 0)
        #expect(world.requests.all.isEmpty)
    }

    // MARK: The model

    @Test func theModelIsPausedAtTheLimitAndResumedAtHalfOfIt() throws {
        var world = try RequestWorld()
        #expect(world.review(unread: 1_000) == .update)
        #expect(world.review(unread: 1_001) == [.update, .pauseModel])
        #expect(world.request.phase == .paused)
        #expect(world.review(unread: 2_000) == .update)
        #expect(world.review(unread: 501) == .update)
        #expect(world.review(unread: 500) == [.update, .resumeModel])
        #expect(world.request.phase == .writing)
    }

    @Test(arguments: [false, true])
    func theWorkEndsOnceWithTheReply(isPaused: Bool) throws {
        var world = try RequestWorld()
        if isPaused { _ = world.review(unread: 5_000) }
        let end = world.review(unread: 5_000, isOver: true)
        #expect(end == (isPaused ? [.update, .endWork, .resumeModel] : [.update, .endWork]))
        #expect(world.request.isOver && world.requests.openCount == 0)
        #expect(world.review(unread: 5_000, isOver: true) == .update, "no model is left to pause")
    }

    // MARK: The readers

    @Test func aReplyWithoutAReaderIsBrokenOff() throws {
        var world = try RequestWorld()
        #expect(world.review(readers: 0) == [.update, .endWork, .breakOff, .remove])
        #expect(world.requests.all.isEmpty && world.requests.openCount == 0)
        #expect(world.requests.remove(world.request) == [], "it is removed once")
    }

    @Test func aPausedModelIsResumedWhereItsRequestIsRemoved() throws {
        var world = try RequestWorld()
        _ = world.review(unread: 5_000)
        let actions = world.requests.remove(world.request)
        #expect(actions == [.endWork, .resumeModel, .breakOff, .remove])
    }

    @Test func aCompleteReplyThatWasReadIsRemovedQuietly() throws {
        var world = try RequestWorld()
        #expect(world.review(isOver: true) == [.update, .endWork])
        #expect(world.review(readers: 0, isOver: true) == [.update, .remove])
        var quick = try RequestWorld()
        #expect(quick.review(readers: 0, isOver: true) == [.update, .endWork, .remove])
    }

    @Test func aReplyThatCanBeResumedWaitsForItsClient() throws {
        var world = try RequestWorld()
        #expect(world.review(readers: 0, canBeResumed: true, at: 1_000) == .update)
        #expect(world.request.expiry == .milliseconds(31_000))
        #expect(world.review(readers: 0, canBeResumed: true, at: 2_000) == .update)
        #expect(world.request.expiry == .milliseconds(31_000), "the time does not begin again")
        let now = Instant.milliseconds(2_000)
        #expect(world.requests.deadline(of: world.request, after: now) == .milliseconds(31_000))
        #expect(world.review(readers: 1, canBeResumed: true, at: 3_000) == .update)
        #expect(world.request.expiry == nil)
    }

    @Test func withoutATimeToResumeNoReplyWaits() throws {
        var world = try RequestWorld(resumeTimeout: .zero)
        let actions = world.review(readers: 0, canBeResumed: true)
        #expect(actions == [.update, .endWork, .breakOff, .remove])
    }

    // MARK: Deadlines

    @Test func theExpiryRemovesAReplyThatHasNoReader() throws {
        for readers in [0, 1] {
            var world = try RequestWorld()
            _ = world.review(readers: 0, isOver: true, canBeResumed: true)
            let due = world.requests.handleDeadline(
                of: world.request, readers: readers, at: .milliseconds(30_000))
            #expect(due == .reply(readers == 0 ? .remove : .update))
            #expect(world.requests.all.count == readers)
        }
    }

    @Test func theCredentialEndsARequestBeforeItsSessionIsAsked() throws {
        var world = try RequestWorld(grantSeconds: 5)
        let request = world.request
        let now = Instant.milliseconds(4_999)
        #expect(world.requests.deadline(of: request, after: now) == .milliseconds(5_000))
        #expect(world.requests.handleDeadline(of: request, readers: 1, at: now) == .session)
        let end = Instant.milliseconds(5_000)
        #expect(world.requests.handleDeadline(of: request, readers: 1, at: end) == .credential)
        _ = world.review(isOver: true)
        #expect(world.requests.handleDeadline(of: request, readers: 1, at: end) == .reply(.update))
        #expect(world.requests.deadline(of: request, after: end) == nil)
    }
}
