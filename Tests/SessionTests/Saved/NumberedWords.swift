// A reply of numbered words, its speech, in which each sample says which character it belongs to, and
// an ear that tells from the audio which words a client has heard.

import Codec

@testable import Session

/// A reply of numbered words.
enum NumberedWords {
    /// Samples of a character, at 24 kHz: 50 ms.
    static let samplesPerCharacter = 1_200

    /// "word0 word1 …", a sentence every seven words.
    static func text(_ count: Int, from first: Int = 0) -> String {
        (first..<first + count).map { "word\($0)" + ($0 % 7 == 6 ? "." : "") }
            .joined(separator: " ") + "!"
    }

    /// Speech of a clause.
    static func speech(_ text: String) -> [SpeechChunk] {
        let samples = text.utf8.flatMap {
            [Int16](repeating: Int16($0), count: samplesPerCharacter)
        }
        return [SpeechChunk(samples: samples, rate: .hz24000)]
    }

    /// The numbers of the words in a text; a word that was cut off is not among them.
    static func numbers(in text: String) -> [Int] {
        text.split(whereSeparator: { " .!".contains($0) }).compactMap { word in
            word.hasPrefix("word") ? Int(word.dropFirst(4)) : nil
        }
    }
}

/// What one client hears.
struct Ear {
    /// Samples of each item, in the order in which the items began.
    private(set) var items: [(id: String, samples: [Int16])] = []

    /// What it had when it last told a server: that it cannot lose.
    private var told: (items: Int, samples: Int) = (0, 0)

    /// Packets reach the client. Audio that is sent again replaces what was there.
    mutating func receive(_ packets: some Sequence<OutputAudioPacket>) {
        for packet in packets {
            if items.last?.id != packet.itemID { items.append((packet.itemID, [])) }
            let last = items.count - 1
            items[last].samples.removeLast(
                max(0, items[last].samples.count - packet.position))
            items[last].samples += stride(from: 0, to: packet.payload.count - 1, by: 2).map {
                Int16(
                    truncatingIfNeeded: Int(packet.payload[$0]) | Int(packet.payload[$0 + 1]) << 8)
            }
        }
    }

    /// The end of what was sent has not reached the client.
    mutating func lose(milliseconds: Int) {
        guard let last = items.indices.last else { return }
        let kept = told.items == items.count ? told.samples : 0
        let samples = items[last].samples.count
        items[last].samples.removeLast(max(0, min(samples - kept, milliseconds * 24)))
    }

    /// The client tells a server what it has.
    mutating func tell() -> PlayedAudio? {
        told = (items.count, items.last?.samples.count ?? 0)
        return played
    }

    /// How much of the last item the client has.
    var played: PlayedAudio? {
        items.last.map { PlayedAudio(itemID: $0.id, milliseconds: $0.samples.count / 24) }
    }

    /// The words of each item that were heard to their ends. The last one of an item may be the
    /// beginning of another: it counts where it comes in its turn.
    var words: [[Int]] {
        var next = 0
        return items.map { item in
            let characters = stride(
                from: NumberedWords.samplesPerCharacter - 1, to: item.samples.count,
                by: NumberedWords.samplesPerCharacter
            ).map { UInt8(truncatingIfNeeded: item.samples[$0]) }
            let text = String(decoding: characters, as: UTF8.self)
            var words = NumberedWords.numbers(in: text)
            let expected = words.count > 1 ? words[words.count - 2] + 1 : next
            if let last = text.last, !" .!".contains(last), let number = words.last,
                !(expected - 2...expected).contains(number)
            {
                words.removeLast()
            }
            if let last = words.last { next = last + 1 }
            return words
        }
    }
}
