// One call of `parley call`: the carrier's end of the line with its queue of audio, and the caller, who
// follows a script. CallClock gives all calls their ticks.

import Codec
import Glibc

/// A carrier's line and its caller.
final class PlayedCall {
    private enum Queued {
        case audio([UInt8])
        case mark(String)
    }

    private let number: Int
    private let script: CallScript
    private let writer: CarrierWriter
    private let client: RealtimeClient
    private var parser = CarrierParser()
    private var message = ByteWriter(capacity: 1_024)
    private var progress: CallProgress
    private var queue: [Queued] = []
    private var chunk = 0
    private var hasNews = false
    /// All that the caller heard, as the line's codes.
    private var heard: [UInt8] = []
    private var spoken = ""
    private var cleared = 0
    private var paused = 0
    private var isPaused = false
    private var shownDelays = 0
    /// Whether the call is over.
    private(set) var isOver = false
    /// Why it has failed. It is nil where it has not.
    private(set) var failure: String?

    /// Begins a call on a connection.
    init(
        number: Int, script: CallScript, writer: CarrierWriter, client: RealtimeClient
    ) throws(CommandFailure) {
        self.number = number
        self.script = script
        self.writer = writer
        self.client = client
        progress = CallProgress(script)
        try send { writer.start(into: &$0) }
    }

    /// Handles the passing of 20 ms.
    /// - Throws: a `CommandFailure` where the command is interrupted. Any other failure ends this
    ///   call alone.
    func tick() throws(CommandFailure) {
        guard !isOver else { return }
        do throws(CommandFailure) {
            try takeMessages()
            try play()
            let step = progress.tick(hasNews: hasNews, isQuiet: queue.isEmpty)
            hasNews = false
            try act(step)
            showDelays()
        } catch {
            guard error.status <= 128 else { throw error }
            end(error.description)
        }
    }

    private func end(_ reason: String?) {
        isOver = true
        failure = reason
        let seconds = Double(heard.count / 160 * 2 / 10) / 10
        let sound = spoken.isEmpty ? "heard \(seconds) s" : "heard \(jsonString(spoken))"
        let drops = cleared == 0 ? "" : ", \(cleared) times the reply was dropped"
        let pauses = paused == 0 ? "" : ", \(paused) times it was paused"
        print("call \(number): \(sound)\(drops)\(pauses)\(reason.map { "; failed: \($0)" } ?? "")")
    }

    private func showDelays() {
        for delay in progress.delays[shownDelays...] {
            print("call \(number): reply after \(delay * 20) ms")
        }
        shownDelays = progress.delays.count
    }

    // MARK: The caller

    private func act(_ step: CallProgress.Step) throws(CommandFailure) {
        switch step {
        case .listen: try say(Self.silence)
        case .say(let turn, let packet): try say(codes(of: script.turns[turn], packet))
        case .tell(let turn):
            guard case .words(let words) = script.turns[turn] else { return }
            try send { writer.prompt(words, into: &$0) }
        case .press(let turn, let key):
            guard case .keys(let keys) = script.turns[turn] else { return }
            try send { writer.digit(Array(keys)[key], into: &$0) }
            try say(Self.silence)
        case .hangUp:
            message.removeAll()
            if writer.stop(into: &message) { try client.send(text: message.copiedBytes) }
            end(nil)
        case .fail: end("no reply")
        }
    }

    /// 20 ms of µ-law without sound.
    private static let silence = [UInt8](repeating: 0xFF, count: 160)

    private func codes(of turn: CallScript.Turn, _ packet: Int) -> [UInt8] {
        guard case .speech(let recording) = turn else { return Self.silence }
        let start = packet * 160
        let end = min(start + 160, recording.samples.count)
        var codes: [UInt8] = []
        recording.samples[start..<end].withUnsafeBufferPointer {
            G711.encode($0, law: .mu, into: &codes)
        }
        return codes + Self.silence.suffix(160 - codes.count)
    }

    private func say(_ codes: [UInt8]) throws(CommandFailure) {
        guard writer.call.carrier != .conversationRelay else { return }
        chunk += 1
        message.removeAll()
        codes.withUnsafeBytes { writer.media($0, chunk: chunk, into: &message) }
        if writer.sendsBinaryMedia {
            try client.send(binary: message.copiedBytes)
        } else {
            try client.send(text: message.copiedBytes)
        }
    }

    // MARK: The carrier

    private func takeMessages() throws(CommandFailure) {
        while let (isText, bytes) = try client.receiveMessage(until: 0) {
            guard isText else {
                queueAudio(bytes)
                continue
            }
            let command: CarrierCommand
            do throws(TelephoneError) {
                command = try parser.parse(bytes, of: writer.call.carrier)
            } catch {
                throw CommandFailure(description: "the server sent a bad message: \(error)")
            }
            try obey(command)
        }
    }

    private func obey(_ command: CarrierCommand) throws(CommandFailure) {
        switch command {
        case .play: queueAudio(Array(parser.audio))
        case .mark(let name): queue.append(.mark(name))
        case .clear:
            cleared += 1
            let dropped = queue
            queue = []
            // Twilio returns the marks of audio that it drops. Asterisk drops the marks, too.
            for case .mark(let name) in dropped where !writer.sendsBinaryMedia {
                try send { writer.played(name, into: &$0) }
            }
        case .pause:
            paused += 1
            isPaused = true
        case .goOn: isPaused = false
        case .speak(let words, let isLast):
            hasNews = true
            spoken += isLast ? words + "\n" : words
        case .hangUp: throw CommandFailure(description: "the server has ended the call")
        case .language, .other: break
        }
    }

    private func queueAudio(_ audio: [UInt8]) {
        hasNews = true
        var codes = ByteWriter(capacity: max(1, audio.count))
        audio.withUnsafeBytes { writer.coding.appendHeard($0, to: &codes) }
        queue.append(.audio(codes.copiedBytes))
    }

    /// Plays 20 ms, and reports the marks that are reached; a queue that is paused plays nothing.
    private func play() throws(CommandFailure) {
        guard !isPaused else { return }
        var left = 160
        while let first = queue.first {
            switch first {
            case .mark(let name):
                queue.removeFirst()
                try send { writer.played(name, into: &$0) }
            case .audio(let audio):
                guard left > 0 else { return }
                let part = min(left, audio.count)
                heard += audio[..<part]
                left -= part
                if part < audio.count {
                    queue[0] = .audio(Array(audio[part...]))
                } else {
                    queue.removeFirst()
                }
            }
        }
    }

    private func send(_ write: (inout ByteWriter) -> Void) throws(CommandFailure) {
        message.removeAll()
        write(&message)
        try client.send(text: message.copiedBytes)
    }

    /// Writes what the caller heard as a WAV file.
    func writeHeard(to path: String) throws(CommandFailure) {
        guard !heard.isEmpty else {
            throw CommandFailure(description: "the caller heard nothing; \(path) is not written")
        }
        var samples = [Int16](repeating: 0, count: heard.count)
        heard.withUnsafeBytes { codes in
            samples.withUnsafeMutableBufferPointer {
                G711.decode(codes.bytes, law: .mu, into: $0)
            }
        }
        let file = WAVFile(rate: .hz8000, samples: samples)
        guard writeWholeFile(path, file.encoded()) else {
            throw CommandFailure(description: "cannot write \(path)")
        }
    }
}

/// Gives calls a tick each 20 ms, until all are over.
struct CallClock {
    private let calls: [PlayedCall]

    init(_ calls: [PlayedCall]) { self.calls = calls }

    func run() throws(CommandFailure) {
        let start = monotonicSeconds()
        var ticks = 0.0
        while calls.contains(where: { !$0.isOver }) {
            for call in calls { try call.tick() }
            try Interruption.check()
            ticks += 1
            // A tick that is late is not made up for by a shorter one: the calls go on together.
            let left = start + ticks * 0.02 - monotonicSeconds()
            if left > 0 { usleep(UInt32(left * 1e6)) }
        }
    }
}
