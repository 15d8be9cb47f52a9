// The fields of a job's entry in the stream, which describe its turn. docs/agents.md has their table.
// The conversation has the form of a chat-completions request, which every library for models reads.

import Codec
import Session

/// A field of an entry.
struct JobField: Equatable, Sendable {
    let name: String
    let value: [UInt8]

    init(_ name: String, _ value: [UInt8]) {
        self.name = name
        self.value = value
    }

    init(_ name: String, _ value: String) { self.init(name, Array(value.utf8)) }
}

/// Writes the fields of one run.
struct JobRequest: Sendable {
    let queue: JobQueue
    let service: ModelService
    /// The name by which workers know themselves in signatures.
    let audience: String

    /// The fields of one run, without the deadline, which the script adds.
    /// - Parameters:
    ///   - body: the request.
    ///   - job: the name of the run.
    ///   - run: 1 for the first run of the turn.
    ///   - turn: the name of the turn.
    ///   - replies: the key of the stream for the answer.
    func fields(
        of request: ModelRequest, body: [UInt8], job: String, run: Int, turn: String,
        replies: String
    ) -> [JobField] {
        var fields = [
            JobField("job", job), JobField("key", turn), JobField("run", "\(run)"),
            JobField("reply", replies), JobField("lease", queue.lease(of: job)),
            JobField("lease_ms", "\(queue.lease.wholeMilliseconds)"),
        ]
        if let identity = request.turn {
            fields.append(JobField("session", identity.sessionID))
            fields.append(JobField("turn", identity.responseID))
            fields.append(JobField("traceparent", TurnFields.traceParent(of: identity)))
            if let subject = identity.subject { fields.append(JobField("subject", subject)) }
            if let token = service.signer?.token(for: identity, audience: audience) {
                fields.append(JobField("signature", token))
            }
        }
        if let heard = request.heard {
            fields.append(JobField("heard_item", heard.itemID))
            fields.append(JobField("heard_characters", "\(heard.characters)"))
        }
        fields.append(JobField("request", body))
        return fields
    }
}
