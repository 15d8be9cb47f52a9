// The state that an agent shares with its client: STATE_SNAPSHOT sets it, STATE_DELTA changes it,
// and the client sends it back with the next run. AGUIMemento carries it between runs.
//
// The member `messages` of a state is left out: LangGraph puts the whole conversation there, and a
// request has the conversation in `messages` of its own.

import Codec

/// The state of one conversation with an agent.
struct AGUIState: Sendable {
    /// Why a state is dropped. The agent then starts from an empty one.
    enum Loss: String, Sendable {
        /// It is larger than `maxBytes`, or nested too deeply.
        case tooLarge = "too_large"
        /// A patch does not apply to it.
        case patchFailed = "patch_failed"
        /// The run has sent more than `maxOperations` changes.
        case tooManyChanges = "too_many_changes"
    }

    /// Bytes of a state. 64 KiB: every session in progress may hold one, and it is sent with every
    /// run.
    static let maxBytes = 64 << 10
    /// Operations of all patches of one run. 10,000: some seconds of a thread at worst.
    static let maxOperations = 10_000

    /// The state; nil where the agent has none.
    private(set) var value: JSONTree?
    private(set) var byteCount = 0
    private var operations = 0
    /// Whether patches are ignored, because what they change was dropped.
    private var isLost = false

    /// No state, or the one of a memento.
    init(_ text: RawJSON? = nil) {
        guard let text, let parsed = try? JSONParser(limits: .ofAnAnswer).parse(text.text) else {
            return
        }
        value = JSONTree(parsed)
        byteCount = value?.byteCount ?? 0
    }

    /// STATE_SNAPSHOT: replaces the state.
    mutating func replace(with snapshot: JSONValue?) -> Loss? {
        isLost = false
        guard let snapshot, !snapshot.isNull else {
            value = nil
            byteCount = 0
            return nil
        }
        guard var tree = JSONTree(snapshot) else { return lose(.tooLarge) }
        if case .object(let members) = tree {
            tree = .object(members.filter { $0.key != "messages" })
        }
        return keep(tree)
    }

    /// STATE_DELTA: applies a patch. An agent that has sent no snapshot starts from `{}`.
    mutating func apply(_ delta: JSONValue?) -> Loss? {
        guard !isLost else { return nil }
        guard let elements = delta?.elements else { return lose(.patchFailed) }
        operations += elements.count
        guard operations <= Self.maxOperations else { return lose(.tooManyChanges) }
        do throws(JSONPatchError) {
            var patch: [JSONPatchOperation] = []
            for element in elements {
                let operation = try JSONPatchOperation(element)
                if operation.path.first != "messages" { patch.append(operation) }
            }
            guard !patch.isEmpty else { return nil }
            var tree = value ?? .object([])
            value = nil
            try tree.apply(patch, maxBytes: Self.maxBytes)
            return keep(tree)
        } catch {
            switch error {
            case .tooLarge, .tooDeep: return lose(.tooLarge)
            case .invalidOperation, .invalidPointer, .missingTarget, .testFailed:
                return lose(.patchFailed)
            }
        }
    }

    private mutating func keep(_ tree: JSONTree) -> Loss? {
        byteCount = tree.byteCount
        guard byteCount <= Self.maxBytes else { return lose(.tooLarge) }
        value = tree
        return nil
    }

    private mutating func lose(_ reason: Loss) -> Loss {
        value = nil
        byteCount = 0
        isLost = true
        return reason
    }
}
