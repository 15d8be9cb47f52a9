// Client secrets on several nodes: a node leaves each secret that it makes in the store, and asks there
// for one that it does not know. The request waits meanwhile and goes on as if the secret had been
// known; the secret then has an entry here until its end.
//
//   request ──unknown secret──▶ counted as a failed attempt ──▶ the store is asked
//                     found: the attempt is taken back, the request is judged again
//                     anything else: the request is judged again, as with a wrong credential
//
// Invariant: a client that guesses learns no more than without a store, and makes the store answer no
// more often than it may fail, also where no credential is needed. The store's answer is
// untrusted: it is parsed as the first request was, and the key must be one of this node.

import Codec
import Session

extension Shard {
    // MARK: Sharing

    /// Leaves a secret for the other nodes.
    func share(_ record: SecretRecord, of secret: String, seconds: Int) {
        guard let secrets = returning.store.secrets, let bytes = record.bytes else { return }
        secrets.share(bytes, of: SHA256Digest(of: secret), for: .seconds(seconds))
    }

    // MARK: Asking

    /// The hash of a credential that the store is to be asked for, or nil where the credential can
    /// be judged at once.
    func secretToAskFor(_ credential: RequestCredential) -> SHA256Digest? {
        guard returning.store.secrets?.isReady == true else { return nil }
        return services.authenticator.unknownSecret(in: credential, at: now)
    }

    /// Asks the store for the client secret of a whole request.
    func askForSecret(
        _ secret: SHA256Digest, of request: HTTPRequest, on connection: Connection
    ) {
        let id = beginLookup(of: secret, for: request, isHead: false, on: connection)
        connection.http?.beginAnswer(.sender)
        ask(for: secret, as: id)
    }

    /// Asks the store for the client secret of a request whose body is due. Nothing more is read until
    /// the answer has come.
    func askForSecret(_ secret: SHA256Digest, head: HTTPRequest, on connection: Connection) {
        let id = beginLookup(of: secret, for: head, isHead: true, on: connection)
        connection.http?.beginJudging()
        perform(.watch, on: connection)
        ask(for: secret, as: id)
    }

    /// Counts a failed attempt, so that questions under way count too.
    private func beginLookup(
        of secret: SHA256Digest, for request: HTTPRequest, isHead: Bool, on connection: Connection
    ) -> SecretLookupID {
        let client = source(of: request, on: connection).client
        let isCounted =
            !fixtures.admission.isUnlimited(client)
            && services.authenticator.failures.spend(client, at: now)
        return questions.secrets.insert(
            AwaitedSender(
                secret: secret, request: request, isHead: isHead, token: connection.token,
                counted: isCounted ? client : nil))
    }

    /// The answer comes through the mailbox, and so never while a request is being judged.
    private func ask(for secret: SHA256Digest, as id: SecretLookupID) {
        returning.store.secrets?.find(secret) { [mailbox = inbox.mailbox] record in
            mailbox.post(.noteSecret(record, for: id))
        }
    }

    // MARK: The answer

    /// The store has answered.
    /// - Parameter record: the record, without bytes where there is no such secret.
    func handleSecret(_ record: Result<[UInt8], RedisError>, for id: SecretLookupID) {
        guard let sender = questions.secrets.remove(id) else { return }
        let entry = entry(in: record)
        if let entry {
            if let client = sender.counted { services.authenticator.failures.refund(client) }
            // An owner without room for it here is asked for at each of its requests.
            try? services.authenticator.secrets.keep(entry, of: sender.secret, at: now)
        }
        // A connection waits for one answer at a time, and goes on with no other.
        guard let connection = connections[sender.token], connection.state == .http,
            connection.http?.awaitsSender == true
        else { return }
        if sender.isHead {
            resumeHead(of: sender, after: SecretAnswer(entry: entry), on: connection)
        } else {
            resume(sender, after: SecretAnswer(entry: entry), on: connection)
        }
    }

    /// The entry that a record describes, or nil where there is none, or it is not valid here.
    private func entry(in record: Result<[UInt8], RedisError>) -> ClientSecrets.Entry? {
        guard case .success(let bytes) = record else {
            metrics.add(.secretsFailed)
            return nil
        }
        guard !bytes.isEmpty else {
            metrics.add(.secretsMissing)
            return nil
        }
        guard let record = SecretRecord(bytes, parser: JSONParser()) else {
            metrics.add(.secretsFailed)
            return nil
        }
        // No longer than was asked for, whatever the clock of the other node says.
        let (left, isOverflow) = record.end.subtractingReportingOverflow(services.wallSeconds())
        guard !isOverflow, left > 0, let caller = issuer(of: record) else {
            metrics.add(.secretsMissing)
            return nil
        }
        guard
            let (wanted, parameters, profile) = try? session(
                askedForBy: record.body, in: record.form, of: caller)
        else {
            metrics.add(.secretsFailed)
            return nil
        }
        metrics.add(.secretsFound)
        return entry(
            for: caller, wanted, parameters, agent: profile?.name, owner: record.owner,
            bodyBytes: record.body.count, seconds: min(left, wanted.seconds))
    }

    /// The caller that has asked for a secret, by the keys of this node.
    private func issuer(of record: SecretRecord) -> Caller? {
        switch record.owner {
        case .principal(let digest):
            guard let key = services.authenticator.key(of: digest) else { return nil }
            return Caller(
                access: .key, principal: digest, subject: key.name, allowance: key.allowance)
        case .address: return services.authenticator.isOn ? nil : .anonymous
        }
    }

    private func resume(
        _ sender: AwaitedSender, after answer: SecretAnswer, on connection: Connection
    ) {
        guard let http = connection.http else { return }
        http.beginServing()
        // The client may have sent its first messages already.
        var pending = http.takePending()
        pending.withUnsafeMutableBytes { rest in
            let verdict = judge(sender.request, after: answer, on: connection)
            perform(verdict, sender.request, followedBy: rest, on: connection)
        }
        if connection.state == .http {
            http.putBack(pending)
            answerWaiting(on: connection)
        } else if connection.state == .webSocket {
            perform([.settle, .rearm, .watch], on: connection)
        }
        if connection.hasEnded { handleEnd(of: connection) }
    }

    private func resumeHead(
        of sender: AwaitedSender, after answer: SecretAnswer, on connection: Connection
    ) {
        switch judge(sender.request, isBodyDue: true, after: answer, on: connection) {
        case .answered(let refusal): refuse(refusal, on: connection)
        // The store is asked once for each request.
        case .undecided, .admitted:
            connection.http?.endJudging()
            answerWaiting(on: connection)
        }
        if connection.hasEnded { handleEnd(of: connection) }
    }
}
