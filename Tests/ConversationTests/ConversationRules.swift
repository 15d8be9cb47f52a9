// What must hold in every conversation, whatever its file expects: so that times which were
// recorded from a mistake do not pass for the truth. Which events must come, only the file knows.

/// Judges the events of one run.
struct ConversationRules {
    /// From speech that can be heard to the voice activity model's opinion. Its windows are 32 ms,
    /// two must agree, and it takes up to two more to be convinced of a soft beginning.
    private static let onset = -80...220
    /// What is broken, as sentences.
    private(set) var problems: [String] = []

    private let seen: [SeenEvent]
    private let packetMilliseconds: Int
    /// By so much the server's timeline of the audio may be shorter than ours.
    private let lostMilliseconds: Int
    /// Whether the agent's own voice is in the microphone.
    private let hearsItself: Bool

    init(_ conversation: ScriptedConversation, _ run: ConversationRun) {
        seen = run.seen
        let packet = conversation.microphone?["packet_ms"]?.integer ?? 20
        let lost = conversation.microphone?["loses"]?.items ?? []
        packetMilliseconds = packet
        hearsItself = conversation.microphone?["echo"] != nil
        lostMilliseconds = lost.reduce(0) { $0 + ($1.items?.last?.integer ?? 0) * packet }
        let detection = conversation.session["audio"]?["input"]?["turn_detection"]
        let isManual = detection?.text == "null"
        if !isManual {
            checkStarts(audible: run.audible, padding: detection?["prefix_padding_ms"]?.integer)
            checkStops(
                silence: detection?["type"]?.text == "semantic_vad"
                    ? nil : detection?["silence_duration_ms"]?.integer ?? 500)
        }
        checkCommits()
        checkResponses()
        checkTruncations()
    }

    private func events(_ type: String) -> [SeenEvent] { seen.filter { $0["event"] == type } }

    /// Speech is noticed where somebody speaks, and told within three windows and a packet.
    private mutating func checkStarts(audible: [Range<Int>], padding: Int?) {
        let latest = 3 * 32 + packetMilliseconds
        for event in events("input_audio_buffer.speech_started") {
            // Padding that reaches into an earlier turn, or before the audio, is cut short.
            guard let start = event.integer("audio_start_ms"), start > 0,
                !events("input_audio_buffer.committed").contains(where: {
                    (0...packetMilliseconds).contains($0.at - start)
                })
            else { continue }
            let onset = start + (padding ?? 300)
            if !(64...latest).contains(event.at - onset) {
                problems.append("\(event) comes \(event.at - onset) ms after the onset")
            }
            if !hearsItself,
                !audible.contains(where: {
                    Self.onset.lowerBound + $0.lowerBound <= onset && onset <= $0.upperBound
                })
            {
                problems.append("\(event): nobody spoke at \(onset) ms")
            }
        }
    }

    /// Speech is over after its silence, not sooner and not much later.
    private mutating func checkStops(silence: Int?) {
        guard let silence else { return }
        for event in events("input_audio_buffer.speech_stopped") {
            guard let end = event.integer("audio_end_ms") else { continue }
            let wait = event.at - end
            // Speech longer than the buffer is committed where it is.
            let latest = silence + 32 + packetMilliseconds + lostMilliseconds
            if wait > packetMilliseconds, !(silence...latest).contains(wait) {
                problems.append("\(event) comes \(wait) ms after the speech, not \(silence)")
            }
        }
    }

    /// A turn that has ended is committed at once.
    private mutating func checkCommits() {
        for event in events("input_audio_buffer.speech_stopped") {
            let commits = events("input_audio_buffer.committed")
            let commit = commits.first { $0["item"] == event["item"] }
            if commit?.at != event.at { problems.append("\(event) is not committed at once") }
        }
    }

    /// Nothing is said to have been heard that was not sent.
    private mutating func checkTruncations() {
        for event in events("conversation.item.truncated") {
            let sent = seen.first { $0["item"] == event["item"] && $0["last"] != nil }
            if event.integer("audio_end_ms") ?? 0 > sent?.integer("audio_ms") ?? 0 {
                problems.append("\(event): \(sent?["audio_ms"] ?? "0") ms were sent")
            }
        }
    }

    /// Every response ends, once, and nothing of it follows.
    private mutating func checkResponses() {
        for created in events("response.created") {
            let id = created["response"]
            let ends = seen.indices.filter {
                seen[$0]["event"] == "response.done" && seen[$0]["response"] == id
            }
            if ends.count > 1 { problems.append("\(id ?? "?") ends \(ends.count) times") }
            guard let end = ends.first else { continue }
            for event in seen[(end + 1)...] where event["response"] == id {
                problems.append("\(event) follows the response's end")
            }
            if let audio = seen.first(where: { $0["response"] == id && $0["last"] != nil }),
                let last = audio.integer("last"), last > seen[end].at
            {
                problems.append("\(audio) goes on after the response's end")
            }
        }
    }
}
