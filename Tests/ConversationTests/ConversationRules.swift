// Rules that must hold in every conversation, whatever its file expects, so that times recorded
// from a faulty run do not become the expectation. Which events must come is in each file.

/// Checks the events of one run.
struct ConversationRules {
    /// Range from audible speech to its detection, in ms. The model's windows are 32 ms and two
    /// must agree; a soft onset needs up to two more.
    private static let onset = -80...220
    /// Broken rules, one sentence each.
    private(set) var problems: [String] = []

    private let seen: [SeenEvent]
    private let packetMilliseconds: Int
    /// How much shorter the server's audio timeline may be than ours: packets that were lost.
    private let lostMilliseconds: Int
    /// Whether the microphone picks up the agent's own voice.
    private let hearsItself: Bool
    /// Whether words are known while they are spoken.
    private let judgesWords: Bool

    init(_ conversation: ScriptedConversation, _ run: ConversationRun) {
        seen = run.seen
        let packet = conversation.microphone?["packet_ms"]?.integer ?? 20
        let lost = conversation.microphone?["loses"]?.items ?? []
        packetMilliseconds = packet
        hearsItself = conversation.microphone?["echo"] != nil
        judgesWords = conversation.recogniser?["while_speaking"]?.flag ?? false
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

    /// Speech is detected where a user speaks, and reported within three windows and a packet.
    private mutating func checkStarts(audible: [Range<Int>], padding: Int?) {
        let latest = 3 * 32 + packetMilliseconds
        for event in events("input_audio_buffer.speech_started") {
            // Padding that would reach into an earlier turn, or before the audio, is shortened.
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
                problems.append("\(event): no user speaks at \(onset) ms")
            }
        }
    }

    /// Speech ends after the configured silence, not earlier and not much later. Where the words of
    /// speech over a reply decide, it ends once they are known: 200 ms of silence and a hypothesis.
    private mutating func checkStops(silence: Int?) {
        guard let silence else { return }
        let earliest = judgesWords ? 200 : silence
        for event in events("input_audio_buffer.speech_stopped") {
            guard let end = event.integer("audio_end_ms") else { continue }
            let wait = event.at - end
            // Speech longer than the buffer is committed before it ends.
            let latest = silence + 32 + packetMilliseconds + lostMilliseconds
            if wait > packetMilliseconds, !(earliest...latest).contains(wait) {
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

    /// A truncation never reports more audio than was sent.
    private mutating func checkTruncations() {
        for event in events("conversation.item.truncated") {
            let sent = seen.first { $0["item"] == event["item"] && $0["last"] != nil }
            if event.integer("audio_end_ms") ?? 0 > sent?.integer("audio_ms") ?? 0 {
                problems.append("\(event): \(sent?["audio_ms"] ?? "0") ms were sent")
            }
        }
    }

    /// Every response ends once, and no event of it follows its end.
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
