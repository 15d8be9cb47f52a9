// What a session's shard knows of the sidebands that have joined it. Only an observed session has
// one; LiveSession has a flag that says so, and nothing else of it. ShardObservations acts on it.
//
// Invariant: a function is served by one sideband at most, and a sideband is in the list from its
// joining until it leaves, is cut off, or the session ends.

import Codec
import Session

/// The sidebands of one session.
final class SessionObservation {
    /// Whose input the session is handling.
    enum Origin {
        /// Its client, its agents or the time.
        case session
        /// A sideband. Errors are for it alone.
        case sideband(SidebandLink)
        /// The server, for a sideband that has left. Errors are for nobody.
        case server
    }

    /// Why a sideband cannot join.
    enum Objection {
        case tooMany
        case toolsTaken
    }

    private(set) var observers: [SidebandLink] = []
    private(set) var privateCalls = PrivateCalls()
    /// Whose input is being handled.
    private(set) var origin = Origin.session
    /// The session before an input that is not its client's.
    private var parametersBefore: SessionParameters?
    /// Places of a reply's items, for audio that the client gets without them.
    private var outputIndexes: [(itemID: String, index: Int)] = []
    /// Whether it is queued to be settled.
    var isUnsettled = false

    /// Bytes of the object itself.
    private static let objectBytes = HeapBlock.object(SessionObservation.self)
    /// Bytes of all of it, without the links, which the sidebands pay for.
    var heldBytes: Int {
        Self.objectBytes + observers.heapBytes + privateCalls.heldBytes + outputIndexes.heapBytes
    }

    /// Whether nothing of it is needed any more.
    var isOver: Bool { observers.isEmpty && privateCalls.isEmpty }

    /// Whether a sideband serves a function.
    func isServed(_ function: String) -> Bool {
        observers.contains { $0.tools.contains(function) }
    }

    // MARK: Coming and going

    /// Why a sideband cannot join, or nil.
    func objection(to link: SidebandLink, atMost limit: Int) -> Objection? {
        if observers.count >= limit { return .tooMany }
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

    /// Private functions that nobody serves any more.
    var abandonedNames: [String] { privateCalls.names.filter { !isServed($0) } }

    /// Names that nobody serves are private no more.
    func forgetAbandonedNames() { privateCalls.keepNames(where: isServed) }

    /// Calls that wait for a sideband that has left; they count as answered.
    func takeOrphans() -> [String] { privateCalls.takeOrphans(isServed) }

    // MARK: Inputs

    /// An input that is not the client's begins.
    func begin(_ origin: Origin, _ parameters: SessionParameters) {
        self.origin = origin
        parametersBefore = parameters
    }

    /// It is over.
    func end() {
        origin = .session
        parametersBefore = nil
    }

    // MARK: Outputs

    /// Takes note of an event, before anybody is shown it.
    /// - Returns: whether the session is to be settled: a sideband has left it functions or calls.
    func note(_ event: ServerEvent) -> Bool {
        privateCalls.note(event)
        switch event {
        case .responseOutputItemAdded(_, let index, let item):
            outputIndexes.append((item.id, index))
        case .responseDone:
            outputIndexes.removeAll()
            return privateCalls.names.contains { !isServed($0) }
                || privateCalls.hasOrphans(isServed)
        default: break
        }
        return false
    }

    /// An event as a viewer sees it; nil: not at all.
    /// - Parameter link: the sideband; nil: the client.
    func view(of event: ServerEvent, for link: SidebandLink?) -> ServerEvent? {
        let tools = link?.tools ?? []
        switch (event, origin) {
        case (.error, .server): return nil
        case (.error, .sideband(let sender)): return sender === link ? event : nil
        // An update by another of what this viewer cannot see is none for it.
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

    /// The event that a packet of binary audio is for sidebands.
    func event(of packet: OutputAudioPacket) -> ServerEvent {
        let index = outputIndexes.last { $0.itemID == packet.itemID }?.index ?? 0
        return .responseOutputAudioDelta(
            PartAddress(
                responseID: packet.responseID, itemID: packet.itemID, outputIndex: index,
                contentIndex: packet.contentIndex),
            audio: packet.payload)
    }
}
