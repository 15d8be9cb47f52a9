// A conversation in which a reply plays and the user makes a sound. The sound is cut from a real
// recording and judged by the real voice activity model. The reply's samples count up, so that
// every byte shows its place in the reply.

import Codec
import Foundation
import TestMaterial

@testable import Session

/// A conversation in which a reply plays and the user makes a sound.
final class BargeIn {
    let script: ScriptedSession
    /// The reply: 118 letters, 5.9 s.
    static let reply =
        "The first sentence of this reply is quite long. The second one goes on for a while too. "
        + "And the third one ends it there."

    init(
        transport: AudioTransport = .binary, format: AudioFormat = .pcm,
        makesHypotheses: Bool = false, isResumable: Bool = false,
        reply: [ScriptedReply] = [.text(BargeIn.reply)],
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) {
        script = ScriptedSession(
            {
                $0.outputTransport = transport
                $0.outputFormat = format
                $0.transcription = TranscriptionParameters(model: "scripted")
                configure(&$0)
            }, voiceActivity: .installed, makesHypotheses: makesHypotheses,
            isResumable: isResumable)
        script.replies = reply
        var next: Int16 = 0
        script.speech = { text in
            let samples = (0..<1_200 * text.count).map { _ in
                next = next == .max ? 0 : next + 1
                return next
            }
            return [SpeechChunk(samples: samples, rate: .hz24000)]
        }
        script.send(.responseCreate(ResponseParameters()), at: 0)
    }

    /// A sound of so many milliseconds, cut from "go forward ten meters", and then silence.
    func speak(milliseconds: Int, at start: Int, silence: Int = 900) throws {
        let sound = SpeechRecording.goForward.samples[(16 * 520)..<(16 * (520 + milliseconds))]
        let packets = try SpeechRecording(samples: Array(sound)).packets(
            silenceMilliseconds: silence)
        // Silence before it: the recording's own, so that the model sees an onset.
        let before = try SpeechRecording(
            samples: Array(SpeechRecording.goForward.samples[..<(16 * 300)])
        )
        .packets(silenceMilliseconds: 0)
        script.speak(before + packets, from: start - 20 * before.count)
    }

    var types: [String] { script.events.compactMap { $0["type"] as? String } }

    func events(_ type: String) -> [[String: Any]] {
        script.events.filter { $0["type"] as? String == type }
    }

    /// Statuses of the responses, in the order of their ends.
    var statuses: [String] {
        events("response.done").compactMap {
            ($0["response"] as? [String: Any])?["status"] as? String
        }
    }

    /// When the first line that holds a text was written, in milliseconds.
    func time(of text: String) -> Int? {
        script.transcript.first { $0.contains(text) }.flatMap {
            Int($0.dropFirst().prefix { $0 != "m" })
        }
    }

    /// The id of the first item of an assistant.
    var replyItem: String {
        events("conversation.item.added").compactMap { $0["item"] as? [String: Any] }
            .first { $0["role"] as? String == "assistant" }?["id"] as? String ?? ""
    }

    /// Where in the first reply the audio jumps back: the packet's index and how far, in samples.
    var rewinds: [(packet: Int, by: Int)] {
        var expected = 0
        var found: [(packet: Int, by: Int)] = []
        for (index, packet) in script.audioPackets.enumerated()
        where packet.itemID == replyItem {
            if packet.position != expected { found.append((index, expected - packet.position)) }
            let width = packet.format == .pcm ? 2 : 1
            expected = packet.position + packet.payload.count / width
        }
        return found
    }
}
