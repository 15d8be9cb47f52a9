// The sidebands that have joined a session, as its shard knows them. Only an observed session has
// one; LiveSession has a flag that says so, and nothing else of it. ShardObservations acts on it.
//
// Invariant: a function is served by one sideband at most, and a sideband is in the list from its
// joining until it leaves, is cut off, or the session ends.

import Codec
import Session

/// The sidebands of one session.
final class SessionObservation {
    /// The source of an input of the session.
    enum Origin {
        /// Its client, its agents or the time.
        case session
        /// A sideband. Errors are for it alone.
        case sideband(SidebandLink)
        /// The server, for a sideband that has left. Errors are dropped.
        case server
    }

    /// Why a sideband cannot join.
    enum Objection {
        case tooMany
        case toolsTaken
    }

    private(set) var observers: [SidebandLink] = []
    private(set) var privateCalls: PrivateCalls
    private var retrievals = ItemRetrievals()
    /// The sideband that the last answer to a retrieval is for, or nil for the client.
    private var asker: SidebandLink?
    /// The source of the input that the session is handling.
    private(set) var origin = Origin.session
    /// The session before an input that is not its client's.
    private var parametersBefore: SessionParameters?
    /// Whether it is queued to be settled.
    var isUnsettled = false

    /// Bytes of the object itself.
    private static let objectBytes = HeapBlock.object(SessionObservation.self)
    /// Bytes of all of it, without the links, which the sidebands pay for.
    var heldBytes: Int {
        Self.objectBytes + observers.heapBytes + privateCalls.heldBytes + retrievals.heldBytes
    }

    /// Whether it is no longer needed.
    var isOver: Bool { observers.isEmpty && privateCalls.isEmpty && retrievals.isEmpty }

    /// Applications' sidebands: without operators, who look on.
    var sidebandCount: Int { observers.count { !$0.isOperator } }

    /// Whether a sideband serves a function.
    func isServed(_ function: String) -> Bool {
        observers.contains { $0.tools.contains(function) }
    }

    /// - Parameter privateCalls: those of a session that comes from another process.
    init(_ privateCalls: PrivateCalls = PrivateCalls()) { self.privateCalls = privateCalls }

    // MARK: Coming and going

    /// Why a sideband cannot join, or nil.
    func objection(to link: SidebandLink, atMost limit: Int) -> Objection? {
        // Operators do not take an application's places.
        if observers.count(where: { $0.isOperator == link.isOperator }) >= limit {
            return .tooMany
        }
        let added = link.tools.count { !privateCalls.names.contains($0) }
        if privateCalls.names.count + added > PrivateCalls.maxNames { return .tooMany }
        return link.tools.contains(where: isServed) ? .toolsTaken : nil
    }

    /// A sideband has joined.
    func join(_ link: SidebandLink) {
        observers.append(link)
        privateCalls.add(link.tools)
    }

    /// Whether a sideband is there.
    func contains(_ link: SidebandLink) -> Bool { observers.contains { $0 === link } }

    /// A sideband is gone.
    /// - Returns: whether it was there.
    func remove(_ link: SidebandLink) -> Bool {
        guard let index = observers.firstIndex(where: { $0 === link }) else { return false }
        observers.remove(at: index)
        return true
    }

    /// Functions that sidebands have put into the session, and whose sideband has left. They count as
    /// withdrawn.
    func takeAbandonedOffers() -> [String] { privateCalls.takeAbandonedOffers(isServed) }

    /// Names whose sideband has left are private no more.
    func forgetAbandonedNames() { privateCalls.keepNames(where: isServed) }

    /// Calls that wait for a sideband that has left; they count as answered.
    func takeOrphans() -> [String] { privateCalls.takeOrphans(isServed) }

    // MARK: Inputs

    /// An input that is not the client's begins.
    func begin(_ origin: Origin, _ parameters: SessionParameters) {
        self.origin = origin
        parametersBefore = parameters
    }

    /// Ends the input.
    func end() {
        origin = .session
        parametersBefore = nil
    }

    /// Converts an event of a viewer to the event that the session takes.
    /// - Parameter link: the sideband that sends it, or nil for the client.
    func admit(
        _ event: ClientEvent, from link: SidebandLink?, to parameters: SessionParameters
    ) -> ClientEvent {
        retrievals.note(event, from: link)
        return privateCalls.admit(event, from: link?.tools ?? [], to: parameters)
    }

    /// The session has taken an event of a sideband's, or refused it.
    func noteTaken(
        _ event: ClientEvent, from link: SidebandLink, _ parameters: SessionParameters
    ) {
        guard !link.tools.isEmpty, case .sessionUpdate(let update) = event else { return }
        switch update.tools {
        case .absent: break
        case .null: privateCalls.noteOffer([], in: parameters.tools, by: link.tools)
        case .value(let tools):
            privateCalls.noteOffer(tools, in: parameters.tools, by: link.tools)
        }
    }

    // MARK: Outputs

    /// Takes note of an event. Called before a viewer is shown it.
    /// - Returns: whether the session is to be settled: a sideband has left it functions or calls, or
    ///   nothing any more.
    func note(_ event: ServerEvent) -> Bool {
        privateCalls.note(event)
        if event.answersRetrieval { asker = retrievals.takeAsker(of: event) }
        // The answer that a sideband has not waited for was the last that it left behind.
        if event.answersRetrieval { return isOver }
        guard case .responseDone = event else { return false }
        return privateCalls.names.contains { !isServed($0) } || privateCalls.hasOrphans(isServed)
    }

    /// An event as a viewer sees it, or nil where the viewer does not see it.
    /// - Parameter link: the sideband, or nil for the client.
    func view(of event: ServerEvent, for link: SidebandLink?) -> ServerEvent? {
        let tools = link?.tools ?? []
        if event.answersRetrieval, asker !== link { return nil }
        switch (event, origin) {
        case (.error, .server): return nil
        case (.error, .sideband(let sender)): return sender === link ? event : nil
        // An update by another viewer, of parts that this viewer cannot see, is not shown to it.
        case (.sessionUpdated(_, let parameters), .sideband(let sender))
        where sender !== link && !isChanged(parameters, for: tools):
            return nil
        case (.sessionUpdated(_, let parameters), .server) where !isChanged(parameters, for: tools):
            return nil
        default: return privateCalls.view(of: event, for: tools)
        }
    }

    private func isChanged(_ parameters: SessionParameters, for tools: [String]) -> Bool {
        guard let parametersBefore else { return true }
        return privateCalls.view(of: parametersBefore, for: tools)
            != privateCalls.view(of: parameters, for: tools)
    }

    /// The place of a part of a response as the client sees it.
    func place(of part: PartAddress) -> PartAddress { privateCalls.moved(part, for: []) }
}
