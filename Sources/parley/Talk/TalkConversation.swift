// One conversation of `parley talk`: the connection, the state of its turns, the printer and the
// reply audio. TypedTurn, SpokenTurn, TypedChat and MicrophoneConversation drive it and decide what
// the user says next.

import Codec
import Glibc

/// The settings of a conversation, which the client sends at its start.
struct TalkParameters {
    /// The audio format of both directions.
    var format: AudioFormat
    /// How reply audio travels.
    var transport: AudioTransport
    /// The language that is spoken, or nil where the server is to find it out.
    var language: String?
    /// Instructions for the model. The default is the server's own.
    var instructions: String?
    /// Whether audio is sent.
    var isSpoken: Bool
    /// Whether replies are spoken.
    var wantsAudio: Bool

    /// Writes the members of the first `session.update`. Members with the protocol's default are
    /// left out, so that other servers of the protocol understand the event too.
    func writeSessionUpdate(to json: inout JSONWriter) {
        json.object("session") { json in
            json.member("type", "realtime")
            json.array("output_modalities") { $0.string(wantsAudio ? "audio" : "text") }
            if let instructions { json.member("instructions", instructions) }
            guard isSpoken || wantsAudio else { return }
            json.object("audio") { json in
                if isSpoken { json.object("input", writeInput) }
                if wantsAudio { json.object("output", writeOutput) }
            }
        }
    }

    private func writeInput(to json: inout JSONWriter) {
        json.object("format", writeFormat)
        json.object("transcription") { json in
            json.member("model", "default")
            if let language { json.member("language", language) }
        }
        json.object("turn_detection") { $0.member("type", "server_vad") }
    }

    private func writeOutput(to json: inout JSONWriter) {
        json.object("format", writeFormat)
        if transport == .binary { json.member("transport", transport.rawValue) }
    }

    private func writeFormat(to json: inout JSONWriter) {
        json.member("type", format.wireName)
        if format.isPCM { json.member("rate", format.sampleRate.hertz) }
    }
}

/// When the parts of a turn came, on the clock of `monotonicSeconds()`.
struct TurnMarks {
    var transcript: Double?
    var firstText: Double?
    var firstAudio: Double?
    /// The transcript of this turn.
    var heard = ""
    var reply = ""
}

/// Drives one session through its conversation.
final class TalkConversation {
    let client: ResumableClient
    let parameters: TalkParameters
    var printer: TalkPrinter
    private(set) var progress = ConversationProgress()
    /// The times and texts of the current turn.
    private(set) var marks = TurnMarks()
    /// Errors, and responses that failed, in order.
    private(set) var failures: [String] = []
    /// Receives the samples of reply audio as they come.
    var onReplyAudio: ([Int16]) -> Void = { _ in }
    /// Is called when the server hears speech: playback must stop.
    var onSpeechStarted: () -> Void = {}
    /// A note on the user's turn while the connection is lost. It is empty where the turn waits.
    var awayNote = ""
    /// Whether the program ends with its session, rather than begin anew.
    var endsWithSession = true
    private var reply: ReplyAudio
    private var playback: PlaybackEstimate
    private var isReady = false
    /// The line that was sent last, where the session can be resumed.
    private var line: (itemID: String, text: String)?
    /// Whether the client has come back, and has asked whether the server has the line.
    private var isSearching = false

    /// Configures the session, and returns once the server has agreed.
    init(
        client: ResumableClient, printer: TalkPrinter, parameters: TalkParameters
    ) throws {
        self.client = client
        self.printer = printer
        self.parameters = parameters
        playback = PlaybackEstimate(rate: parameters.format.sampleRate)
        reply = try ReplyAudio(format: parameters.format)
        client.onLoss = { [weak self] in self?.noteLoss() }
        client.playedAudio = { [weak self] in self?.playback.kept }
        try configure()
        let deadline = monotonicSeconds() + 10
        while !isReady {
            guard monotonicSeconds() < deadline else {
                throw CommandFailure(description: "the server did not confirm the session in 10 s")
            }
            try step(until: deadline)
            if let failure = failures.first { throw CommandFailure(description: failure) }
        }
    }

    /// Begins a turn: marks and failures of the turn before are dropped.
    func beginTurn() {
        progress.beginTurn()
        marks = TurnMarks()
        failures = []
    }

    /// Sends a line of text and asks for its answer.
    func send(line: String) throws {
        beginTurn()
        // An id of the client's own tells after a lost connection whether the line has arrived.
        let itemID = client.canComeBack ? makeItemID() : nil
        self.line = itemID.map { ($0, line) }
        isSearching = false
        try send(line, itemID: itemID)
        try client.send(event: "response.create")
        progress.handleTextSent(itemID: itemID)
    }

    /// Stops the reply that is running: nothing more of it is shown. The turn is over when the server
    /// agrees.
    func interrupt() throws {
        progress.beginInterruption()
        printer.showNote(
            marks.reply.isEmpty ? "not answered: the next line came first" : "interrupted")
        try sendInterruption()
    }

    private func sendInterruption() throws {
        try client.send(event: "response.cancel") { json in
            json.member("event_id", ConversationProgress.interruptionID)
        }
    }

    private func makeItemID() -> String {
        let digits = String(UInt64.random(in: 0 ... .max), radix: 16)
        return "item_" + String(repeating: "0", count: 16 - digits.count) + digits
    }

    private func send(_ line: String, itemID: String?) throws {
        try client.send(event: "conversation.item.create") { json in
            json.object("item") { json in
                if let itemID { json.member("id", itemID) }
                json.member("type", "message")
                json.member("role", "user")
                json.array("content") { json in
                    json.object { json in
                        json.member("type", "input_text")
                        json.member("text", line)
                    }
                }
            }
        }
    }

    /// Waits for one message until a time and follows it; returns early when none came.
    func step(until deadline: Double) throws {
        guard let message = try client.receive(until: deadline) else { return }
        let now = monotonicSeconds()
        if let back = client.takeReturn() { try goOn(after: back) }
        switch message {
        case .binary(let bytes):
            // Messages of an unknown kind are for other clients (PROTOCOL.md, binary output).
            guard bytes.first == OutputAudioMessage.kind else { return }
            if marks.firstAudio == nil { marks.firstAudio = now }
            play(try reply.append(binary: bytes), at: now)
        case .event(let type, let body, let text):
            printer.showEvent(text)
            try follow(progress.handle(type: type, body: body), at: now)
        }
    }

    private func follow(_ notice: ConversationNotice, at now: Double) throws {
        switch notice {
        case .sessionUpdated:
            isReady = true
            progress.endRetelling()
        case .lineIsKnown(let isKnown):
            try sendWhatWasLost(isLineKnown: isKnown)
        case .speechStarted:
            onSpeechStarted()
            try acknowledge(at: now)
        case .transcript(let text):
            printer.showTranscript(text)
        case .transcriptDone(let text, let isShown):
            marks.heard += (marks.heard.isEmpty ? "" : " ") + text
            marks.transcript = now
            if !isShown {
                printer.endLine()
                printer.showTranscript(text)
            }
        case .replyText(let text):
            if marks.firstText == nil { marks.firstText = now }
            marks.reply += text
            printer.showReply(text)
        case .replyAudio(let base64, let itemID, let start):
            if marks.firstAudio == nil { marks.firstAudio = now }
            play(try reply.append(base64: base64, itemID: itemID, start: start), at: now)
        case .functionCall(let name, let arguments):
            printer.showNote("the agent calls \(name) with \(arguments)")
        case .responseDone(let status, let reason):
            try finishResponse(status: status, reason: reason)
        case .failed(let reason):
            failures.append(reason)
            printer.showError(reason)
        case .turnCommitted:
            // The marks that follow belong to the new turn; a reply that it interrupted is over.
            marks.transcript = nil
            marks.firstText = nil
            marks.firstAudio = nil
            marks.reply = ""
        case .sessionCreated, .other: break
        }
    }

    // MARK: A lost connection

    private func configure() throws {
        try client.send(event: "session.update") { parameters.writeSessionUpdate(to: &$0) }
    }

    private func noteLoss() {
        printer.showNote(
            "connection lost; coming back…" + (awayNote.isEmpty ? "" : " \(awayNote)"))
    }

    /// The client has come back. It sends the settings again, because they may have been lost, and
    /// asks for the line that is not answered yet. The answer comes after everything that was missed.
    private func goOn(after back: ResumePlace.Return) throws {
        switch back {
        case .recovered: printer.showNote("back")
        case .retold:
            progress.beginRetelling()
            marks.reply = ""
            printer.showNote("back; the reply in progress follows again")
        case .anew:
            let news = "the session is lost: the server has begun the conversation anew"
            guard !endsWithSession else { throw CommandFailure(description: news) }
            printer.showNote(news)
            progress = ConversationProgress()
            line = nil
        }
        try configure()
        if progress.isInterrupting { try sendInterruption() }
        isSearching = line != nil && !progress.isTurnOver
        guard isSearching, let line else { return }
        try client.send(event: "conversation.item.retrieve") { json in
            json.member("event_id", ConversationProgress.searchID(of: line.itemID))
            json.member("item_id", line.itemID)
        }
    }

    /// Everything that was missed has come. A line that the server does not know was lost on its way
    /// there. The answer to a search on an earlier connection may come first, and is as good: the
    /// line was sent before it, and not again since.
    private func sendWhatWasLost(isLineKnown: Bool) throws {
        guard isSearching, let line else { return }
        isSearching = false
        if !isLineKnown { try send(line.text, itemID: line.itemID) }
        if !progress.hasResponse { try client.send(event: "response.create") }
    }

    // MARK: Replies

    /// When a user who hears replies as they come has heard all that came so far.
    var playedOut: Double { playback.playedOut }

    /// Whether the last turn is over, and all audio of its reply that came was played. If the
    /// client left earlier, its user would not have heard the end.
    func isTurnOver(at now: Double) -> Bool { progress.isTurnOver && playedOut <= now }

    private func play(_ samples: [Int16], at now: Double) {
        let end = reply.itemEnd
        playback.handle(samples.count, of: end.id, end: end.samples, at: now)
        onReplyAudio(samples)
    }

    /// Reports to the server where playback of the reply stopped. Where the session uses no other
    /// extension, the server may not know this one, and nothing is sent.
    private func acknowledge(at now: Double) throws {
        guard let heard = playback.stop(at: now),
            parameters.transport == .binary || parameters.format == .opus
        else { return }
        try client.send(event: "output_audio_buffer.played") { json in
            json.member("item_id", heard.itemID)
            json.member("content_index", 0)
            json.member("audio_end_ms", heard.milliseconds)
        }
    }

    private func finishResponse(status: String, reason: String?) throws {
        printer.endLine()
        guard let reason else { return }
        if reason == ConversationProgress.handedOver {
            printer.showNote("the server restarts; the rest of the reply follows")
        } else if status == "completed" {
            printer.showNote(reason)
        } else if status == "cancelled" {
            printer.showNote("the reply was cancelled: \(reason)")
        } else {
            failures.append("the response ended as \(status): \(reason)")
            printer.showError(failures.last ?? status)
        }
    }

    /// Shows when the parts of the turn came, counted from `origin`.
    /// - Parameter event: `origin` in words.
    func showTimings(since origin: Double, of event: String) {
        func milliseconds(_ mark: Double?) -> Int? {
            mark.map { Int((($0 - origin) * 1_000).rounded()) }
        }
        let figures = [
            ("transcript", milliseconds(marks.transcript)),
            ("first text", milliseconds(marks.firstText)),
            ("first audio", milliseconds(marks.firstAudio)),
        ]
        let shown = figures.compactMap { name, value in value.map { "\(name) \($0) ms" } }
        if !shown.isEmpty {
            printer.showNote(shown.joined(separator: ", ") + " after \(event)")
        }
        var members = [
            "\"type\":\"parley.talk.turn\"", "\"heard\":\(jsonString(marks.heard))",
            "\"reply\":\(jsonString(marks.reply))",
        ]
        for (name, value) in figures {
            let key = name.split(separator: " ").joined(separator: "_") + "_ms"
            members.append("\"\(key)\":\(value.map(String.init) ?? "null")")
        }
        printer.showEvent("{" + members.joined(separator: ",") + "}")
    }

    /// Fails when something in the turn failed. For turns that end the program.
    func checkTurn() throws {
        if let failure = failures.first { throw CommandFailure(description: failure) }
    }

    /// Writes all reply audio so far.
    func writeReply(to path: String) throws {
        guard !reply.samples.isEmpty else {
            throw CommandFailure(description: "the server sent no audio; \(path) is not written")
        }
        let file = WAVFile(rate: reply.rate, channels: 1, samples: reply.samples)
        guard writeWholeFile(path, file.encoded()) else {
            throw CommandFailure(description: "cannot write \(path)")
        }
        let seconds = Double(reply.samples.count) / Double(reply.rate.hertz)
        printer.showNote("\((seconds * 10).rounded() / 10) s of reply are in \(path)")
    }
}

/// Seconds on the machine's monotonic clock.
func monotonicSeconds() -> Double {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
}
