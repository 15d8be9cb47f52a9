// The function calls of one answer, put into the order that `ModelDelta` asks for: one call after
// the other, however the service interleaves them. The call at the front streams, the others wait
// until those before them are over.

import Codec
import Session

/// Collects the calls of one answer of a service that says when each begins and ends.
struct CallSequence {
    private struct Call {
        let key: Int
        let callID: String
        let name: String
        /// Arguments that have not been passed on.
        var arguments = ""
        var hasArguments = false
        var hasStarted = false
        var hasEnded = false
    }

    private var calls: [Call] = []
    /// The call that streams.
    private var front = 0

    /// Whether a call has begun under a key, and whether arguments of it have come.
    func state(of key: Int) -> (isKnown: Bool, hasArguments: Bool) {
        guard let call = calls.last(where: { $0.key == key }) else { return (false, false) }
        return (true, call.hasArguments)
    }

    /// A call begins.
    /// - Parameter key: how the service names it in what follows, unique in its answer.
    mutating func begin(_ key: Int, callID: String, name: String) -> [ModelDelta] {
        calls.append(Call(key: key, callID: callID, name: name))
        return take()
    }

    /// More of a call's arguments. What belongs to no call is passed over.
    mutating func append(_ arguments: String, to key: Int) -> [ModelDelta] {
        guard !arguments.isEmpty, let index = calls.lastIndex(where: { $0.key == key }) else {
            return []
        }
        calls[index].arguments += arguments
        calls[index].hasArguments = true
        return take()
    }

    /// A call is over. One without arguments has none: an empty object, as clients parse them.
    mutating func end(_ key: Int) -> [ModelDelta] {
        guard let index = calls.lastIndex(where: { $0.key == key }), !calls[index].hasEnded else {
            return []
        }
        calls[index].hasEnded = true
        if !calls[index].hasArguments { calls[index].arguments = "{}" }
        return take()
    }

    /// The answer is over, and all calls with it.
    mutating func finish() -> [ModelDelta] { calls.map(\.key).flatMap { end($0) } }

    private mutating func take() -> [ModelDelta] {
        var deltas: [ModelDelta] = []
        while front < calls.count {
            if !calls[front].hasStarted {
                calls[front].hasStarted = true
                deltas.append(
                    .functionCallStarted(callID: calls[front].callID, name: calls[front].name))
            }
            if !calls[front].arguments.isEmpty {
                deltas.append(.functionCallArguments(calls[front].arguments))
                calls[front].arguments = ""
            }
            guard calls[front].hasEnded else { break }
            front += 1
        }
        return deltas
    }
}
