// Performs the commands of sessions: starts one task on the shard's executor per transcription, per
// model reply and per clause of speech; stops tasks; and decides which results still count. The
// session handles the results.
//
// Invariant: at most one clause of a response is being spoken; a cancelled task's results are
// refused even if they were delivered before the cancellation.

import Codec
import Logging
import Session

/// The agents' tasks of one session. Empty, and without memory of its own, without commands.
struct AgentWork {
    /// The purpose of a task.
    enum Purpose: Equatable {
        case transcription(itemID: String)
        case hypothesis(itemID: String)
        case turnEnd(itemID: String)
        case model(responseID: String)
        case speech(responseID: String)
        case encoding(itemID: String)
        case toolList(connection: String)
        case toolCall(itemID: String, connection: String)
    }

    struct Running {
        let serial: UInt64
        let purpose: Purpose
        let task: Task<Void, Never>
        /// Bytes of the task, and of its command.
        let bytes: Int
        /// The host to which it reports further memory.
        let host: ShardAgentHost
        /// Whether it is suspended, because enough of its speech waits to be sent.
        fileprivate(set) var isSuspended = false
    }

    struct Clause {
        let responseID: String
        let request: SpeechRequest
    }

    /// In the order of their start. Few, so that a search costs less than a dictionary.
    fileprivate(set) var running: [Running] = []
    /// Clauses that wait for the one before them, in order.
    fileprivate(set) var waiting: [Clause] = []
    /// Connections to MCP servers, or nil where the session has never used one.
    var tools: ToolConnections?
    /// The caller of the session: the work of all its sessions counts together.
    let caller: CallerTag
    /// Whether its client may know why a service has failed: an operator on this machine.
    var explainsFailures = false

    init(caller: CallerTag) { self.caller = caller }

    /// Whether a task runs or waits.
    var isBusy: Bool { !running.isEmpty || !waiting.isEmpty || tools != nil }

    /// Bytes of the tasks, and of the clauses that wait.
    var heldBytes: Int {
        let tasks = running.reduce(running.heapBytes + waiting.heapBytes) {
            $0 + $1.bytes + $1.host.chargedBytes
        }
        return waiting.reduce(tasks) { $0 + $1.request.text.heapBytes }
    }

    /// Whether a delivery of this task still counts.
    func accepts(serial: UInt64) -> Bool { running.contains { $0.serial == serial } }
}

/// Starts and stops the agents of one shard's sessions. Confined to the shard's thread.
final class AgentLink {
    let agents: AgentSet
    let host: ShardAgentHost
    let gate: ShardGate
    let logger: Logger
    private var nextSerial: UInt64 = 0
    private var hasPreparedModels = false
    /// Tasks whose end has not been handled.
    private(set) var runningTasks = 0

    init(agents: AgentSet, host: ShardAgentHost, gate: ShardGate, logger: Logger) {
        self.agents = agents
        self.host = host
        self.gate = gate
        self.logger = logger
    }

    /// Performs one command of the session at `token`.
    /// - Parameter subject: the name of the session's caller, for models, if it has one.
    func perform(
        _ command: AgentCommand, for token: EventToken, subject: String?, work: inout AgentWork
    ) {
        switch command {
        case .prepareRecognition:
            prepareModels()
        case .transcribe(let itemID, let utterance):
            transcribe(itemID, utterance, for: token, work: &work)
        case .hypothesize(let itemID, let utterance, let use):
            hypothesize(itemID, utterance, use, for: token, work: &work)
        case .judgeTurnEnd(let itemID, let audio):
            judgeTurnEnd(itemID, audio, for: token, work: &work)
        case .encodeAudio(let itemID, let audio, let format):
            encode(audio, of: itemID, as: format, for: token, work: &work)
        case .respond(let responseID, var request):
            request.turn?.subject = subject
            respond(responseID, request, for: token, work: &work)
        case .speak(let responseID, let request):
            work.waiting.append(.init(responseID: responseID, request: request))
            startNextClause(of: responseID, for: token, work: &work)
        case .cancelResponse(let responseID):
            work.waiting.removeAll { $0.responseID == responseID }
            stop(&work) {
                $0 == .model(responseID: responseID) || $0 == .speech(responseID: responseID)
            }
        case .cancelSpeech(let responseID):
            work.waiting.removeAll { $0.responseID == responseID }
            stop(&work) { $0 == .speech(responseID: responseID) }
        case .withdrawHypothesis(let itemID):
            for running in work.running where running.purpose == .hypothesis(itemID: itemID) {
                running.host.withdraw()
            }
        case .cancelTranscription(let itemID):
            stop(&work) {
                $0 == .transcription(itemID: itemID) || $0 == .hypothesis(itemID: itemID)
            }
        case .tools(let command):
            perform(command, for: token, work: &work)
        }
    }

    /// Handles a delivery after the session has: a task that ends with it is removed.
    func handleDelivered(_ delivery: AgentDelivery, work: inout AgentWork) {
        switch delivery.event {
        case .modelDelta, .speech, .transcriptPart: return
        case .transcript, .transcriptionFailed, .hypothesis, .hypothesisFailed, .turnEnd,
            .audioEncoded, .modelFinished, .modelFailed, .tools:
            end(delivery.serial, work: &work)
        case .speechFinished(let responseID), .speechFailed(let responseID, _):
            end(delivery.serial, work: &work)
            startNextClause(of: responseID, for: delivery.token, work: &work)
        }
    }

    /// Suspends a synthesis of which enough speech waits to be sent, and resumes the others. To be
    /// called whenever the session may have taken speech, or sent some.
    func paceSpeech(of session: VoiceSession, work: inout AgentWork) {
        for index in work.running.indices {
            guard case .speech(let responseID) = work.running[index].purpose else { continue }
            let hasEnough = session.hasEnoughSpeech(of: responseID)
            guard hasEnough != work.running[index].isSuspended else { continue }
            work.running[index].isSuspended = hasEnough
            let serial = work.running[index].serial
            gate.assumeIsolated {
                if hasEnough {
                    $0.suspendSpeech(ofTask: serial)
                } else {
                    $0.resumeSpeech(ofTask: serial)
                }
            }
        }
    }

    /// Stops all tasks; the session has ended.
    func stopAll(_ work: inout AgentWork) {
        work.waiting = []
        stop(&work) { _ in true }
        closeAllTools(&work)
    }

    // MARK: Starting

    /// Lets the recogniser and the synthesiser load their models, once a shard. No session waits
    /// for it.
    func prepareModels() {
        guard !hasPreparedModels else { return }
        hasPreparedModels = true
        let (host, agents) = (host, agents)
        Task(executorPreference: gate.executor.task) {
            await agents.recognizer?.prepare(on: host)
            await agents.turnModel?.prepare(on: host)
            await agents.synthesizer?.prepareVoice(on: host)
        }
    }

    /// Checks the services of the agents when the server starts, and logs problems.
    func checkServices() {
        let (host, agents) = (host, agents)
        Task(executorPreference: gate.executor.task) {
            await agents.model.checkServices(on: host)
            await agents.recognizer?.checkRecognizer(on: host)
            await agents.synthesizer?.checkSynthesizer(on: host)
        }
    }

    private func transcribe(
        _ itemID: String, _ utterance: Utterance, for token: EventToken, work: inout AgentWork
    ) {
        let recognizer = agents.recognizer
        let host = host.serving(token, of: work)
        start(
            .transcription(itemID: itemID), for: token, on: host, work: &work,
            askedBytes: utterance.audio.decodedBytes
        ) { report in
            guard let recognizer else { throw AgentLink.missing("speech recogniser") }
            let heard = try await recognizer.transcribe(utterance, on: host) { part in
                try Task.checkCancellation()
                await report(.transcriptPart(itemID: itemID, text: part))
            }
            await report(
                .transcript(itemID: itemID, text: heard.text, language: heard.language))
        } failing: { [logger] in
            .transcriptionFailed(
                itemID: itemID, host.explained(AgentLink.describe($0, of: "recogniser", logger)))
        }
    }

    private func hypothesize(
        _ itemID: String, _ utterance: Utterance, _ use: HypothesisUse, for token: EventToken,
        work: inout AgentWork
    ) {
        let recognizer = agents.recognizer
        let urgency: JobUrgency =
            switch use {
            case .display: .spare
            case .probableTranscript, .interruption: .expected
            }
        let host = host.serving(token, of: work, urgency)
        start(
            .hypothesis(itemID: itemID), for: token, on: host, work: &work,
            askedBytes: utterance.audio.decodedBytes
        ) { report in
            guard let recognizer else { throw AgentLink.missing("speech recogniser") }
            let heard = try await recognizer.transcribe(utterance, on: host)
            await report(
                .hypothesis(itemID: itemID, text: heard.text, language: heard.language))
        } failing: { _ in
            // It happens again in `transcribe`, and is logged there.
            .hypothesisFailed(itemID: itemID)
        }
    }

    private func judgeTurnEnd(
        _ itemID: String, _ audio: HeardAudio, for token: EventToken, work: inout AgentWork
    ) {
        let turnModel = agents.turnModel
        let host = host.serving(token, of: work, .expected)
        start(
            .turnEnd(itemID: itemID), for: token, on: host, work: &work,
            askedBytes: audio.decodedBytes
        ) { report in
            let probability = try await turnModel?.probability(ofEndAfter: audio, on: host)
            await report(.turnEnd(itemID: itemID, probability: probability))
        } failing: { _ in
            .turnEnd(itemID: itemID, probability: nil)
        }
    }

    private func encode(
        _ audio: HeardAudio, of itemID: String, as format: AudioFormat, for token: EventToken,
        work: inout AgentWork
    ) {
        let host = host.serving(token, of: work)
        start(
            .encoding(itemID: itemID), for: token, on: host, work: &work,
            askedBytes: audio.decodedBytes * 2
        ) { report in
            let bytes = try await host.compute { try audio.encoded(as: format) }
            await report(.audioEncoded(itemID: itemID, bytes))
        } failing: { _ in
            // A busy server returns the words alone.
            .audioEncoded(itemID: itemID, [])
        }
    }

    private func respond(
        _ responseID: String, _ request: ModelRequest, for token: EventToken,
        work: inout AgentWork
    ) {
        let model = agents.model
        let host = host.serving(token, of: work)
        start(
            .model(responseID: responseID), for: token, on: host, work: &work,
            askedBytes: request.heldBytes
        ) { report in
            try await model.respond(to: request, on: host) { delta in
                // A long delta takes several turns of the event loop: the gate admits a few pieces
                // in each.
                var rest = delta
                while let piece = rest.takePiece() {
                    try Task.checkCancellation()
                    await report(.modelDelta(responseID: responseID, piece))
                }
                try Task.checkCancellation()
                await report(.modelDelta(responseID: responseID, rest))
            }
            await report(.modelFinished(responseID: responseID))
        } failing: { [logger] in
            .modelFailed(
                responseID: responseID,
                host.explained(AgentLink.describe($0, of: "model", logger)))
        }
    }

    /// Answers a request to the model that may not be made: its response fails.
    func refuse(
        _ responseID: String, _ reason: AgentError, for token: EventToken, work: inout AgentWork
    ) {
        start(.model(responseID: responseID), for: token, on: host, work: &work) { _ in
            throw reason
        } failing: { _ in
            .modelFailed(responseID: responseID, reason)
        }
    }

    private func startNextClause(
        of responseID: String, for token: EventToken, work: inout AgentWork
    ) {
        let purpose = AgentWork.Purpose.speech(responseID: responseID)
        guard !work.running.contains(where: { $0.purpose == purpose }),
            let index = work.waiting.firstIndex(where: { $0.responseID == responseID })
        else { return }
        let request = work.waiting.remove(at: index).request
        let synthesizer = agents.synthesizer
        let host = host.serving(token, of: work)
        start(purpose, for: token, on: host, work: &work) { report in
            guard let synthesizer else { throw AgentLink.missing("speech synthesiser") }
            try await synthesizer.speak(request, on: host) { chunk in
                try Task.checkCancellation()
                await report(.speech(responseID: responseID, chunk))
            }
            await report(.speechFinished(responseID: responseID))
        } failing: { [logger] in
            .speechFailed(
                responseID: responseID,
                host.explained(AgentLink.describe($0, of: "synthesiser", logger)))
        }
    }

    /// Starts a task of a session.
    /// - Parameters:
    ///   - askedBytes: what the task keeps of its command.
    ///   - body: the work; it reports its results.
    ///   - failing: the results to report where the work throws.
    func start(
        _ purpose: AgentWork.Purpose, for token: EventToken, on host: ShardAgentHost,
        work: inout AgentWork, askedBytes: Int = 0,
        _ body:
            @escaping @Sendable (
                _ report: @Sendable (AgentEvent) async -> Void
            ) async throws -> Void,
        failing: @escaping @Sendable (any Error) -> AgentEvent
    ) {
        nextSerial += 1
        runningTasks += 1
        let serial = nextSerial
        let gate = gate
        let task = Task(executorPreference: gate.executor.task) {
            // A task that is cancelled before its first step must not do its work: a client that
            // creates and cancels responses would cause the work of all of them.
            guard !Task.isCancelled else { return }
            let report: @Sendable (AgentEvent) async -> Void = { event in
                let delivery = AgentDelivery(token: token, serial: serial, event: event)
                if gate.deliverAtOnce(delivery) { return }
                await gate.deliver(delivery)
            }
            do {
                try await body(report)
            } catch {
                await report(failing(error))
            }
        }
        let bytes = AgentWork.taskBytes + askedBytes
        work.running.append(
            .init(serial: serial, purpose: purpose, task: task, bytes: bytes, host: host))
    }

    // MARK: Ending

    private func end(_ serial: UInt64, work: inout AgentWork) {
        guard let index = work.running.firstIndex(where: { $0.serial == serial }) else { return }
        forget(work.running.remove(at: index))
    }

    func stop(_ work: inout AgentWork, where matches: (AgentWork.Purpose) -> Bool) {
        for running in work.running where matches(running.purpose) {
            running.task.cancel()
            forget(running)
        }
        work.running.removeAll { matches($0.purpose) }
    }

    /// Forgets a task whose results do not count any more: it is resumed, and the gate forgets it.
    private func forget(_ running: AgentWork.Running) {
        runningTasks -= 1
        guard running.isSuspended else { return }
        gate.assumeIsolated { $0.resumeSpeech(ofTask: running.serial) }
    }

    private static func missing(_ part: String) -> AgentError {
        .unavailable(message: "This server has no \(part).")
    }

    /// The error for the client. Agents may throw any error: an `AgentError` is meant for the
    /// client, the others are only logged. The error that ends a cancelled task is no failure.
    private static func describe(
        _ error: any Error, of part: StaticString, _ logger: Logger
    ) -> AgentError {
        if let error = error as? AgentError {
            // A service's own text is not for the client.
            switch error {
            case .rateLimited(_, detail: ""): break
            case .upstream, .brokenOff, .malformedReply, .rateLimited, .agentLost:
                // The agent has reported it to its host, which logs it with the evidence.
                guard !Task.isCancelled else { break }
                logger.debug(
                    "upstream failed", metadata: ["part": "\(part)", "error": "\(error.detail)"])
            case .unavailable, .unknownModel, .overloaded, .quotaUsedUp, .explained: break
            }
            return error
        }
        if !Task.isCancelled {
            logger.warning("agent failed", metadata: ["part": "\(part)", "error": "\(error)"])
        }
        return .unavailable(message: "The agent failed.")
    }
}
