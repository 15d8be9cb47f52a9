// One conversation with a real shard on the simulated kernel, over WebSocket messages. The virtual
// clock advances by one millisecond, so a client reacts within one.

import Codec
import Foundation
import Server
import Session
import Simulation

/// Runs a conversation and records its events.
final class ConversationRun {
    private let conversation: ScriptedConversation
    private let agents: ScriptedAgents
    private let server: SimulatedServer
    private let client: SimulatedClient
    private var microphone: Microphone
    private var loudspeaker: Loudspeaker
    /// The last playback position of an item that the client reported.
    private var acknowledged: (itemID: String, milliseconds: Int)?
    private var record = EventRecord()
    /// Actions with a known time; the others wait for an event.
    private var due: [(at: Int, action: ClientAction)] = []
    private var waiting: [(action: ClientAction, left: Int)] = []
    /// The simulation's time at which the conversation began.
    private var origin = Instant(nanoseconds: 0)
    private var now = 0
    private var taken = 0
    private var lastUserItem: String?
    /// Where speech is audible, in the conversation's time.
    private(set) var audible: [Range<Int>] = []
    /// Events that do not fit the protocol's tables.
    private(set) var violations: [String] = []

    var seen: [SeenEvent] { record.seen }

    init(_ conversation: ScriptedConversation) throws {
        self.conversation = conversation
        agents = try ScriptedAgents(conversation)
        microphone = try Microphone(conversation.microphone)
        loudspeaker = Loudspeaker(conversation.player)
        var configuration = ServerConfiguration()
        if let seconds = conversation.server?["max-buffered-audio-seconds"]?.integer {
            configuration.session.maxBufferedAudioSeconds = seconds
        }
        server = try SimulatedServer(
            configuration: configuration,
            agents: AgentSet(model: agents, recognizer: agents, synthesizer: agents),
            voiceActivityModel: VoiceActivityModel.installed())
        client = server.openClient()
        for action in conversation.client {
            switch action.when {
            case .at(let time): due.append((time, action))
            case .on(_, let nth, _): waiting.append((action, nth))
            }
        }
    }

    /// Runs the whole conversation.
    func run() throws {
        server.run()
        var session = conversation.session.json() as? [String: Any] ?? [:]
        session["type"] = "realtime"
        try send(["type": "session.update", "session": session])
        server.run()
        try takeMessages()
        origin = server.io.now
        while now < conversation.end {
            try act()
            now += 1
            server.run(for: .milliseconds(1))
            try takeMessages()
            try acknowledge()
            try speak()
        }
    }

    // MARK: The client

    private func act() throws {
        let ready = due.filter { $0.at <= now }
        due.removeAll { $0.at <= now }
        for (_, action) in ready {
            switch action.what {
            case .hear(let sound):
                microphone.place(sound, at: now)
                if let range = action.audible {
                    audible.append(now + range.lowerBound..<now + range.upperBound)
                }
            case .send(let event):
                let variables: [String: Any] = [
                    "$reply": loudspeaker.itemID ?? "none",
                    "$heard_ms": loudspeaker.heard(at: now), "$user": lastUserItem ?? "none",
                ]
                try send(event.json(variables))
            }
        }
    }

    /// Reports the playback position, if the conversation's client does so.
    private func acknowledge() throws {
        guard let interval = loudspeaker.acknowledgementInterval, now.isMultiple(of: interval),
            let itemID = loudspeaker.itemID
        else { return }
        let heard = loudspeaker.heard(at: now)
        guard acknowledged?.itemID != itemID || acknowledged?.milliseconds != heard else { return }
        acknowledged = (itemID, heard)
        try send([
            "type": "output_audio_buffer.played", "item_id": itemID, "content_index": 0,
            "audio_end_ms": heard,
        ])
    }

    /// Sends the packet that is complete now, if any.
    private func speak() throws {
        guard now >= microphone.position + microphone.packetMilliseconds else { return }
        if let echo = microphone.echo {
            let start = microphone.position - echo.delay
            let heard = loudspeaker.played(from: start, to: start + microphone.packetMilliseconds)
            let factor = Float(pow(10, echo.gain / 20))
            microphone.place(Sound(exactly: heard.map { $0 * factor }), at: microphone.position)
        }
        if let packet = try microphone.nextPacket() { client.send(.binary, packet) }
    }

    private func send(_ event: Any) throws {
        client.send(
            String(decoding: try JSONSerialization.data(withJSONObject: event), as: UTF8.self))
    }

    // MARK: The server

    private func takeMessages() throws {
        while taken < client.messages.count {
            let time = client.times[taken]
            let message = client.messages[taken]
            taken += 1
            guard case .text(let text) = message else {
                throw Fixtures.Failure(description: "the server sent \(message)")
            }
            violations += RealtimeSchema.shared.violations(inServerEvent: text)
            let parsed = try JSONSerialization.jsonObject(with: Data(text.utf8))
            guard let event = parsed as? [String: Any] else { continue }
            handle(event, at: Int((time - origin).wholeMilliseconds))
        }
        for messages in agents.takeAsked() { record.note(asked: messages, at: now) }
    }

    private func handle(_ event: [String: Any], at time: Int) {
        let type = event["type"] as? String ?? ""
        var milliseconds: Int?
        if type == "response.output_audio.delta", let id = event["item_id"] as? String {
            let samples = Self.samples(inBase64: event["delta"] as? String ?? "")
            milliseconds = Sound.rate.milliseconds(ofSamples: samples.count)
            loudspeaker.play(samples, of: id, at: time)
        }
        if type == "input_audio_buffer.committed" { lastUserItem = event["item_id"] as? String }
        record.note(event, audioMilliseconds: milliseconds, at: time)
        for index in waiting.indices {
            guard case .on(let name, _, let after) = waiting[index].action.when, name == type
            else { continue }
            waiting[index].left -= 1
            if waiting[index].left == 0 { due.append((time + after, waiting[index].action)) }
        }
        // Runs after the actions that query the playback position: they are due in the next
        // millisecond, and the loudspeaker stops at the position it has reached now.
        if type == "input_audio_buffer.speech_started",
            conversation.player?["stops_at_speech"]?.flag != false
        {
            loudspeaker.stop(at: time)
        }
    }

    private static func samples(inBase64 text: String) -> [Int16] {
        let data = [UInt8](Data(base64Encoded: text) ?? Data())
        return stride(from: 0, to: data.count - 1, by: 2).map {
            Int16(bitPattern: UInt16(data[$0]) | UInt16(data[$0 + 1]) << 8)
        }
    }
}
