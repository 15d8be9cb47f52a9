// The function calls of one answer in the order that `ModelDelta` requires: one call after the
// other, even where the service interleaves them. The first open call streams; the others wait
// until the calls before them have ended.

import Codec
import Session

/// Collects the calls of one answer, for services that mark the beginning and end of each call.
struct CallSequence {
    private struct Call {
        let key: Int
        let callID: String
        let name: String
        /// Arguments that have not been passed on.
        var arguments = ""
        var halves = SurrogateHalves()
        var hasArguments = false
        var hasStarted = false
        var hasEnded = false
    }

    private var calls: [Call] = []
    /// The call that streams.
    private var front = 0

    /// Whether a call with this key has begun, and whether it has arguments yet.
    func state(of key: Int) -> (isKnown: Bool, hasArguments: Bool) {
        guard let call = calls.last(where: { $0.key == key }) else { return (false, false) }
        return (true, call.hasArguments)
    }

    /// A call begins.
    /// - Parameter key: the call's number at the service, unique in the answer.
    mutating func begin(_ key: Int, callID: String, name: String) -> [ModelDelta] {
        calls.append(Call(key: key, callID: callID, name: name))
        return take()
    }

    /// Adds a value of the answer to a call's arguments. Arguments of an unknown call are ignored.
    /// - Throws: `.malformedReply` where the value is no piece of arguments.
    mutating func append(_ value: JSONValue?, to key: Int) throws(AgentError) -> [ModelDelta] {
        guard let value, let index = calls.lastIndex(where: { $0.key == key }) else { return [] }
        let arguments = try value.callArguments(&calls[index].halves)
        guard !arguments.isEmpty else { return [] }
        calls[index].arguments += arguments
        calls[index].hasArguments = true
        return take()
    }

    /// A call is over.
    mutating func end(_ key: Int) -> [ModelDelta] {
        guard let index = calls.lastIndex(where: { $0.key == key }), !calls[index].hasEnded else {
            return []
        }
        calls[index].hasEnded = true
        calls[index].arguments += calls[index].halves.finish()
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
