// A conversation as data: Tests/Fixtures/conversations/README.md says what a file may hold.

import TestMaterial
import YAML

/// An action of the client and its time.
struct ClientAction {
    enum What {
        case hear(Sound)
        case send(YAMLValue)
    }

    enum When {
        /// At this time of the conversation.
        case at(Int)
        /// After the `nth` event of a type (1: the first), by this many milliseconds.
        case on(event: String, nth: Int, after: Int)
    }

    let when: When
    let what: What
    /// Whether the action is speech.
    let isSpeech: Bool
    /// Where speech is audible in it, if it is one whole recording.
    let audible: Range<Int>?

    init(_ entry: YAMLValue) throws {
        if let event = entry["when"]?.text {
            when = .on(
                event: event, nth: entry["nth"]?.integer ?? 1, after: entry["after"]?.integer ?? 0)
        } else {
            when = .at(entry["at"]?.integer ?? 0)
        }
        let gain = entry["gain_db"]?.number ?? 0
        if let name = entry["speak"]?.text {
            var sound = try Sound.recording(name, gain: gain)
            let bounds = try Fixtures.recordings()[name]?["speech"]?.items?.compactMap(\.integer)
            var audible = (bounds?.first ?? 0)..<(bounds?.last ?? sound.milliseconds)
            if let cut = entry["cut"]?.items?.compactMap(\.integer), cut.count == 2 {
                sound = sound.cut(cut[0]..<cut[1])
                audible = (audible.clamped(to: cut[0]..<cut[1]))
                audible = audible.lowerBound - cut[0]..<audible.upperBound - cut[0]
            }
            what = .hear(sound)
            isSpeech = true
            self.audible = audible
        } else if let name = entry["noise"]?.text {
            let milliseconds = entry["for"]?.integer ?? 1_000
            what = .hear(try Sound.noise(name, milliseconds: milliseconds, gain: gain))
            isSpeech = false
            audible = nil
        } else if let event = entry["send"] {
            what = .send(event)
            isSpeech = false
            audible = nil
        } else {
            throw Fixtures.Failure(description: "a client's entry says nothing: \(entry)")
        }
    }
}

/// One file of Tests/Fixtures/conversations.
struct ScriptedConversation {
    let file: GoldenFile
    /// The file's text before the expectations.
    let script: String
    /// `session` of the first `session.update`.
    let session: YAMLValue
    /// The server's options, by their names on the command line.
    let server: YAMLValue?
    let microphone: YAMLValue?
    let player: YAMLValue?
    let client: [ClientAction]
    let recogniser: YAMLValue?
    let model: [YAMLValue]
    let synthesiser: YAMLValue?
    /// End of the conversation, in milliseconds.
    let end: Int
    /// The expected events.
    let expected: [SeenEvent]

    init(_ name: String) throws {
        file = Fixtures.file(ofConversation: name)
        let text = try file.text()
        guard let marker = text.range(of: "\nexpect:") else {
            throw Fixtures.Failure(description: "\(name) expects nothing")
        }
        script = String(text[..<marker.lowerBound]) + "\n"
        let root = try YAMLValue(parsing: text)
        session = root["session"] ?? .map([])
        server = root["server"]
        microphone = root["microphone"]
        player = root["player"]
        client = try (root["client"]?.items ?? []).map { try ClientAction($0) }
        recogniser = root["recogniser"]
        model = root["model"]?.items ?? []
        synthesiser = root["synthesiser"]
        end = root["until"]?.integer ?? 10_000
        expected = (root["expect"]?.items ?? []).map { SeenEvent($0) }
    }

    /// The file's text with these expectations.
    func text(expecting events: [SeenEvent]) -> String {
        script + "expect:\n" + events.map { "  - \($0)\n" }.joined()
    }
}
