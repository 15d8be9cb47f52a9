// What one session may use: its own quotas, and its part of those that it shares with the other
// sessions of its key and its address. ShardQuotas asks before a session gets an input or a model a
// request, and counts what was used.
//
// A session takes events and seconds of audio from the store several at a time, so that a message
// costs a subtraction and no lock. Units that it has not used go back when it ends.

import Codec
import Session

/// A refusal: the quota that is used up, and its owner.
struct QuotaRefusal: Error, Equatable {
    /// The kind of owner that the quota has.
    enum Owner: String, Equatable {
        case key
        case address
        case session
    }

    let owner: Owner
    let exhausted: ExhaustedQuota

    /// The unit that cannot be used.
    var unit: QuotaUnit { exhausted.quota.unit }
    /// Seconds until one may be used again, rounded up; 1 or more.
    var retryAfterSeconds: Int { max(1, (exhausted.wait.wholeMilliseconds + 999) / 1_000) }

    /// A sentence for the client: the limit, and when to come back.
    var message: String {
        let quota = exhausted.quota
        let name = quota.unit == .audioSeconds ? "seconds of audio" : quota.unit.rawValue
        return "Rate limit reached: \(quota.amount) \(name) per \(quota.period.rawValue) for this "
            + "\(owner.rawValue). Try again in \(retryAfterSeconds) s."
    }
}

/// The quotas of a session. Only sessions that have any have such an object. Confined to its shard's
/// thread.
final class SessionQuotas {
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SessionQuotas.self)
    /// Events taken from the store at a time. 16: few enough that a key's sessions together keep
    /// little of its quota for themselves.
    static let eventsAtATime = 16
    /// The time between two errors about refused audio. 10 s: the client sends fifty packets a second,
    /// and an error for each would be a flood.
    static let audioErrorInterval = Duration.seconds(10)
    /// Most estimates that are kept. 8: more requests than a session has at once.
    private static let maxEstimates = 8

    private let own: [Quota]
    private var ownBuckets = QuotaBuckets()
    private let accounts: [QuotaAccount]
    private let store: any QuotaStore
    /// Events that were taken and not used.
    private var events = 0
    /// Samples of audio at 16 kHz that were taken and not used; less than 0: used and not taken.
    private var audioSamples = 0
    /// Estimated tokens of the requests whose response has not ended, oldest first. A head start of
    /// the model that was not used has no response, and its tokens stay counted.
    private var estimates: [(responseID: String, tokens: Int)] = []
    /// When the next error about refused audio is due.
    private var nextAudioError = Instant(nanoseconds: 0)

    /// - Parameters:
    ///   - own: the quotas of the session alone.
    ///   - accounts: the accounts of the quotas that it shares.
    /// - Returns: nil where there are no quotas.
    init?(own: [Quota], accounts: [QuotaAccount], in store: any QuotaStore) {
        let accounts = accounts.filter { !$0.quotas.isEmpty }
        guard !own.isEmpty || !accounts.isEmpty else { return nil }
        self.own = own
        self.accounts = accounts
        self.store = store
    }

    deinit {
        if events > 0 { store.refund(events, of: .events, to: accounts) }
        let seconds = audioSamples / SampleRate.hz16000.hertz
        if seconds > 0 { store.refund(seconds, of: .audioSeconds, to: accounts) }
    }

    /// Bytes of it. The quotas themselves belong to the configuration or to the key.
    var heldBytes: Int { Self.objectBytes + accounts.heapBytes + estimates.heapBytes }

    // MARK: Use

    /// Charges the opening of the session.
    func openConnection(at now: Instant) throws(QuotaRefusal) {
        _ = try take(1, of: .connections, at: now)
    }

    /// Charges an event of the client.
    func takeEvent(at now: Instant) throws(QuotaRefusal) {
        if events == 0 { events = try take(Self.eventsAtATime, of: .events, at: now) }
        events -= 1
    }

    /// Charges the next second of audio, where the seconds charged so far are used up.
    func prepareAudio(at now: Instant) throws(QuotaRefusal) {
        guard audioSamples <= 0 else { return }
        audioSamples += SampleRate.hz16000.hertz * (try take(1, of: .audioSeconds, at: now))
    }

    /// Charges audio that was heard, beyond the seconds that were already charged for it: a message
    /// may last for many seconds.
    /// - Parameter samples: the audio's length, at 16 kHz.
    func noteAudio(samples: Int, at now: Instant) {
        audioSamples -= samples
        let seconds = -audioSamples / SampleRate.hz16000.hertz
        guard seconds > 0 else { return }
        audioSamples += SampleRate.hz16000.hertz * seconds
        charge(seconds, of: .audioSeconds, at: now)
    }

    /// Whether an error about refused audio is due: one for each `audioErrorInterval`.
    func isAudioErrorDue(at now: Instant) -> Bool {
        guard now >= nextAudioError else { return false }
        nextAudioError = now + Self.audioErrorInterval
        return true
    }

    /// Why a model may not be asked for a reply now, or nil where it may. Nothing is charged.
    func objectionToTurn(at now: Instant) -> QuotaRefusal? {
        exhausted(.tokens, at: now) ?? exhausted(.turns, at: now)
    }

    /// Charges the request of a reply from a model. The tokens of the request are estimated until
    /// the model has counted them, so that many requests at once cannot all be made with the last
    /// token.
    func takeTurn(
        for responseID: String, _ request: ModelRequest, at now: Instant
    ) throws(QuotaRefusal) {
        if let refusal = exhausted(.tokens, at: now) { throw refusal }
        _ = try take(1, of: .turns, at: now)
        guard limits(.tokens) else { return }
        let tokens = request.estimatedTokens
        charge(tokens, of: .tokens, at: now)
        if estimates.count >= Self.maxEstimates { estimates.removeFirst() }
        estimates.append((responseID, tokens))
    }

    /// Charges the tokens of a response that has ended, instead of their estimate. A response that
    /// has failed without a word has none: the model may never have been asked.
    func noteEnd(of response: ResponseDescription, at now: Instant) {
        guard limits(.tokens) else { return }
        let index = estimates.firstIndex { $0.responseID == response.id }
        let estimate = index.map { estimates.remove(at: $0).tokens } ?? 0
        var tokens = response.countedTokens ?? estimate + response.estimatedOutputTokens
        if case .failed = response.status, response.countedTokens == nil, response.output.isEmpty {
            tokens = 0
        }
        if tokens >= estimate {
            charge(tokens - estimate, of: .tokens, at: now)
        } else {
            ownBuckets.refund(estimate - tokens, of: .tokens, in: own)
            store.refund(estimate - tokens, of: .tokens, to: accounts)
        }
    }

    /// Charges the words of the replies in flight at the end of the session.
    /// - Parameter tokens: the estimate of their tokens.
    func noteUnfinished(tokens: Int, at now: Instant) {
        if tokens > 0 { charge(tokens, of: .tokens, at: now) }
    }

    /// The balance of the quota of a unit that has least left. Nil means that it has no quota.
    func balance(of unit: QuotaUnit, at now: Instant) -> QuotaBalance? {
        let shared = store.balance(of: unit, in: accounts, at: now)
        guard let own = ownBuckets.balance(of: unit, in: own, at: now) else { return shared }
        guard let shared, shared.remaining < own.remaining else { return own }
        return shared
    }

    // MARK: Another process

    /// When the session's own quotas will be full: the time of each bucket that is not full, by its
    /// index.
    func ownFullTimes(at now: Instant) -> [Int: Instant] { ownBuckets.fullTimes(after: now) }

    /// Tokens that are counted for requests whose response has not ended, by its id.
    var openEstimates: [String: Int] {
        estimates.reduce(into: [:]) { $0[$1.responseID] = $1.tokens }
    }

    /// Takes over the use of a session that comes from another process.
    func restore(ownFullTimes: [Int: Instant], estimates: [String: Int], at now: Instant) {
        for (index, full) in ownFullTimes { ownBuckets.raise(index, to: full, at: now) }
        guard limits(.tokens) else { return }
        self.estimates = estimates.prefix(Self.maxEstimates).map { ($0.key, $0.value) }
    }

    // MARK: Own and shared quotas together

    private func limits(_ unit: QuotaUnit) -> Bool {
        own.contains { $0.unit == unit } || accounts.contains { $0.limits(unit) }
    }

    /// The quota of a unit of which nothing is left for the longest time.
    private func exhausted(_ unit: QuotaUnit, at now: Instant) -> QuotaRefusal? {
        let shared = store.exhausted(unit, in: accounts, at: now)
        let own = ownBuckets.exhausted(unit, in: own, at: now)
        guard let own, own.wait >= shared?.exhausted.wait ?? .zero else {
            return shared.map(QuotaRefusal.init)
        }
        return QuotaRefusal(owner: .session, exhausted: own)
    }

    /// - Returns: 1…`wanted`
    private func take(
        _ wanted: Int, of unit: QuotaUnit, at now: Instant
    ) throws(QuotaRefusal) -> Int {
        if let refusal = exhausted(unit, at: now) { throw refusal }
        let most = ownBuckets.left(of: unit, upTo: wanted, in: own, at: now)
        let count: Int
        do {
            count = try store.take(most, of: unit, from: accounts, at: now)
        } catch {
            throw QuotaRefusal(error)
        }
        ownBuckets.charge(count, of: unit, in: own, at: now)
        return count
    }

    private func charge(_ count: Int, of unit: QuotaUnit, at now: Instant) {
        ownBuckets.charge(count, of: unit, in: own, at: now)
        store.charge(count, of: unit, to: accounts, at: now)
    }
}

extension QuotaRefusal {
    fileprivate init(_ account: ExhaustedAccount) {
        switch account.subject {
        case .principal: self.init(owner: .key, exhausted: account.exhausted)
        case .address: self.init(owner: .address, exhausted: account.exhausted)
        }
    }
}
