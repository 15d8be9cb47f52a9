// States that were changed in the store, at random: they are refused with a typed error, or a session
// goes on with them. None breaks an invariant (that would trap), and every event fits the protocol.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct StrangeStateTests {
    /// A record of a session in the middle of a reply, with items of several kinds.
    private func record(after milliseconds: Int) throws -> [String: [UInt8]] {
        let script = ScriptedSession({ $0.outputTransport = .binary }, isResumable: true)
        let text = "This is said. " + String(repeating: "And then there is more of it. ", count: 9)
        script.replies = [
            ScriptedReply(
                pieces: [
                    (.milliseconds(10), .text(text)),
                    (.milliseconds(10), .functionCallStarted(callID: "c1", name: "look")),
                    (.milliseconds(10), .functionCallArguments("{}")),
                    (.milliseconds(10), .memento(provider: "p", text: "state")),
                    (.milliseconds(500), .text("The end.")),
                ])
        ]
        let item = ConversationItem(
            id: "u1", kind: .message(role: .user, content: [.inputText("Speak.")]))
        script.send(.conversationItemCreate(item: item, previousItemID: nil), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 1)
        script.run(until: milliseconds)
        return Dictionary(
            uniqueKeysWithValues: try script.save().fields().map { ($0.name, $0.value) })
    }

    /// Other numbers, words and brackets in the place of what is there.
    private func change(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        guard !bytes.isEmpty else { return }
        let place = Int(random.next() % UInt64(bytes.count))
        switch random.next() % 6 {
        case 0: bytes[place] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.removeSubrange(place..<min(bytes.count, place + 1 + Int(random.next() % 20)))
        case 2:
            // Every digit from here on, up to something else.
            guard let digit = bytes[place...].firstIndex(where: { (48...57).contains($0) })
            else { return }
            let numbers = ["-1", "0", "2147483647", "99999999999", "1e9", "null", "\"x\""]
            let number = numbers[Int(random.next() % UInt64(numbers.count))]
            let end = bytes[digit...].firstIndex { !(48...57).contains($0) } ?? bytes.count
            bytes.replaceSubrange(digit..<end, with: Array(number.utf8))
        case 3:
            let other = Int(random.next() % UInt64(bytes.count))
            bytes.swapAt(place, other)
        case 4:
            let end = min(bytes.count, place + Int(random.next() % 60))
            bytes.insert(contentsOf: bytes[place..<end], at: place)
        default:
            let pairs = [("true", "false"), ("false", "true"), ("in_progress", "completed")]
            let pair = pairs[Int(random.next() % UInt64(pairs.count))]
            bytes = Array(
                String(decoding: bytes, as: UTF8.self).replacing(pair.0, with: pair.1).utf8)
        }
    }

    @Test(arguments: [5, 60, 700, 1_500, 4_000, 30_000])
    func aChangedStateIsRefusedOrGoesOn(time: Int) throws {
        let whole = try record(after: time)
        let names = whole.keys.sorted()
        var random = SeededGenerator(seed: UInt64(time))
        var restored = 0
        for _ in 0..<400 {
            var fields = whole
            for _ in 0...Int(random.next() % 3) {
                let name = names[Int(random.next() % UInt64(names.count))]
                change(&fields[name, default: []], &random)
            }
            guard let saved = try? SavedSession(fields: fields),
                let script = try? ScriptedSession(restoring: saved, voiceActivity: .installed)
            else { continue }
            restored += 1
            let again = try SavedSession(
                fields: Dictionary(
                    saved.fields().map { ($0.name, $0.value) }, uniquingKeysWith: { $1 }))
            #expect(again == saved)
            let played = saved.itemIDs.last.map {
                PlayedAudio(
                    itemID: $0, milliseconds: Int(truncatingIfNeeded: random.next() >> 40))
            }
            script.startRestored(
                saved, played: random.next() % 2 == 0 ? played : nil,
                announcesItems: random.next() % 2 == 0)
            script.run(until: 3_000)
            script.handOver()
            _ = try script.save()
            #expect(script.violations.isEmpty && script.faults.isEmpty)
        }
        #expect(restored > 20, "nothing is restored")
    }
}
