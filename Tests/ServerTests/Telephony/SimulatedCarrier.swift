// A carrier with one call, on a simulated connection: it sends the caller's audio in packets of 20 ms,
// queues what it is sent and plays it at its pace, returns marks as the carrier does, and drops its
// queue on request. The shapes of its messages are written down here, as carriers document them.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// A carrier, its queue and its caller.
final class SimulatedCarrier {
    /// The messages of one carrier.
    struct Shape: Sendable {
        var start: String
        /// `PAYLOAD` and `CHUNK` stand for the audio and its number.
        var media: String
        /// `MARK` stands for the name.
        var played: String
        /// The events of what comes, and where they have what.
        var mediaEvent = "media"
        var markEvent = "mark"
        var clearEvent = "clear"
        var namesMarkInside = true
        /// Whether a `clear` returns the marks of what is dropped.
        var returnsClearedMarks = true
        var bytesPerMillisecond = 8
    }

    /// One entry of the queue.
    private enum Queued {
        case audio([UInt8])
        case mark(String)
    }

    let server: SimulatedServer
    let client: SimulatedClient
    let shape: Shape
    private var taken = 0
    private var queue: [Queued] = []
    private var chunk = 0
    /// All audio that came, and all that was played.
    private(set) var received: [UInt8] = []
    private(set) var played: [UInt8] = []
    /// Names of marks that came.
    private(set) var marks: [String] = []
    /// How often the queue was to be dropped, and how much was in it, in milliseconds.
    private(set) var cleared: [Int] = []
    /// Whether its queue is empty.
    var isQuiet: Bool { queue.isEmpty }

    init(
        _ server: SimulatedServer, _ shape: Shape = .twilio, path: String = "/twilio",
        fields: [(String, String)] = [], starts: Bool = true
    ) {
        self.server = server
        self.shape = shape
        client = server.openClient(path, subprotocols: [], fields: fields)
        #expect(server.run())
        if starts {
            client.send(shape.start)
            #expect(server.run())
        }
    }

    /// Milliseconds of what was played.
    var playedMilliseconds: Int { played.count / shape.bytesPerMillisecond }

    /// 20 ms pass, in which the caller says this.
    func pass(_ packet: [UInt8]) {
        if !packet.isEmpty {
            chunk += 1
            client.send(
                shape.media.replacing("PAYLOAD", with: Base64.text(of: packet))
                    .replacing("CHUNK", with: "\(chunk)"))
        }
        #expect(server.run(for: .milliseconds(20)))
        takeMessages()
        play(bytes: 20 * shape.bytesPerMillisecond)
    }

    /// The caller says this, and then nothing for so long.
    func say(_ packets: [[UInt8]], silence: Int = 0) {
        for packet in packets { pass(packet) }
        let quiet = [UInt8](repeating: 0xFF, count: 160)
        for _ in 0..<silence / 20 { pass(quiet) }
    }

    /// The caller's audio is not sent for so long.
    func stopSending(for milliseconds: Int) {
        for _ in 0..<milliseconds / 20 { pass([]) }
    }

    private func takeMessages() {
        for message in client.messages[taken...] {
            guard case .text(let text) = message, let root = try? JSONParser().parse(text) else {
                continue
            }
            switch root["event"]?.string {
            case shape.mediaEvent:
                var audio = ByteWriter(capacity: 1_024)
                if let payload = root["media"]?["payload"]?.utf8 {
                    #expect(throws: Never.self) { try Base64.decode(payload, into: &audio) }
                }
                received += audio.copiedBytes
                queue.append(.audio(audio.copiedBytes))
            case shape.markEvent:
                let name = (shape.namesMarkInside ? root["mark"] : root)?["name"]?.string ?? ""
                marks.append(name)
                queue.append(.mark(name))
            case shape.clearEvent: clear()
            default: Issue.record("not a message to a carrier: \(text)")
            }
        }
        taken = client.messages.count
    }

    private func clear() {
        var bytes = 0
        for entry in queue {
            switch entry {
            case .audio(let audio): bytes += audio.count
            case .mark(let name): if shape.returnsClearedMarks { sendPlayed(name) }
            }
        }
        cleared.append(bytes / shape.bytesPerMillisecond)
        queue = []
    }

    private func play(bytes: Int) {
        var left = bytes
        while let first = queue.first {
            switch first {
            case .mark(let name):
                sendPlayed(name)
                queue.removeFirst()
            case .audio(let audio):
                guard left > 0 else { return }
                let part = min(left, audio.count)
                played += audio[..<part]
                left -= part
                if part < audio.count {
                    queue[0] = .audio(Array(audio[part...]))
                } else {
                    queue.removeFirst()
                }
            }
        }
    }

    private func sendPlayed(_ name: String) {
        client.send(shape.played.replacing("MARK", with: name))
    }

    /// A recording as packets of 20 ms in µ-law.
    static func packets(of recording: SpeechRecording) throws -> [[UInt8]] {
        var resampler = try Resampler(from: .hz16000, to: .hz8000)
        var output = [Int16](
            repeating: 0, count: resampler.maxOutputSamples(for: recording.samples.count))
        let count = recording.samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        var codes: [UInt8] = []
        output[..<count].withUnsafeBufferPointer { G711.encode($0, law: .mu, into: &codes) }
        return stride(from: 0, to: codes.count - 159, by: 160).map { Array(codes[$0..<$0 + 160]) }
    }
}

extension SimulatedCarrier.Shape {
    /// Twilio, with the application's parameters as JSON.
    static func twilio(_ parameters: String) -> Self {
        Self(
            start: #"{"event":"start","sequenceNumber":"1","start":{"accountSid":"AC1","#
                + #""streamSid":"MZ1","callSid":"CA1","tracks":["inbound"],"mediaFormat":{"#
                + #""encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},"#
                + #""customParameters":\#(parameters)},"streamSid":"MZ1"}"#,
            media: #"{"event":"media","sequenceNumber":"2","media":{"track":"inbound","#
                + #""chunk":"CHUNK","timestamp":"5","payload":"PAYLOAD"},"streamSid":"MZ1"}"#,
            played: #"{"event":"mark","sequenceNumber":"4","streamSid":"MZ1","#
                + #""mark":{"name":"MARK"}}"#)
    }

    static let twilio = twilio("{}")

    static let telnyx = Self(
        start: #"{"event":"start","sequence_number":"1","start":{"user_id":"u","#
            + #""call_control_id":"v2:1","from":"+1","to":"+2","media_format":{"#
            + #""encoding":"PCMU","sample_rate":8000,"channels":1}},"stream_id":"32DE"}"#,
        media: #"{"event":"media","sequence_number":"4","media":{"track":"inbound","#
            + #""chunk":"CHUNK","timestamp":"5","payload":"PAYLOAD"},"stream_id":"32DE"}"#,
        played: #"{"event":"mark","sequence_number":"5","stream_id":"32DE","#
            + #""mark":{"name":"MARK"}}"#)

    static let plivo = Self(
        start: #"{"sequenceNumber":0,"event":"start","start":{"callId":"c1","streamId":"s1","#
            + #""accountId":"a1","tracks":["inbound"],"mediaFormat":{"#
            + #""encoding":"audio/x-mulaw","sampleRate":8000}},"extra_headers":"{}"}"#,
        media: #"{"sequenceNumber":2,"streamId":"s1","event":"media","media":{"#
            + #""track":"inbound","timestamp":"5","chunk":CHUNK,"payload":"PAYLOAD"},"#
            + #""extra_headers":"{}"}"#,
        played: #"{"event":"playedStream","name":"MARK"}"#, mediaEvent: "playAudio",
        markEvent: "checkpoint", clearEvent: "clearAudio", namesMarkInside: false,
        returnsClearedMarks: false)

    /// 16-bit samples at 8 kHz.
    static let exotel = Self(
        start: #"{"event":"start","sequence_number":"1","stream_sid":"MZ1","start":{"#
            + #""stream_sid":"MZ1","call_sid":"CA1","account_sid":"AC1","from":"+91","to":"+92","#
            + #""custom_parameters":{},"media_format":{"encoding":"audio/x-raw","#
            + #""sample_rate":"8000","bit_rate":"16"}}}"#,
        media: #"{"event":"media","sequence_number":"3","stream_sid":"MZ1","media":{"#
            + #""chunk":"CHUNK","timestamp":"5","payload":"PAYLOAD"}}"#,
        played: #"{"event":"mark","sequence_number":"5","stream_sid":"MZ1","#
            + #""mark":{"name":"MARK"}}"#, bytesPerMillisecond: 16)
}
