// Where queued audio lies, and how the bytes around it stay whole: the marks and the send buffer
// against a plain model of both.

import Session
import Simulation
import Testing

@testable import Server

@Suite struct QueuedAudioTests {
    private func message(
        _ start: Int, _ count: Int, until: Int = 0, response: String = "r", item: String = "i"
    ) -> QueuedAudio.Message {
        QueuedAudio.Message(
            start: start, byteCount: count, usefulUntil: .milliseconds(until),
            responseID: response, itemID: item, position: 0)
    }

    @Test func dropsALateMessageAtTheFrontOnly() {
        var audio = QueuedAudio()
        func takeLate(at milliseconds: Int) -> Int? {
            audio.takeLateFront(at: .milliseconds(milliseconds))?.start
        }
        audio.append(message(10, 5, until: 100))
        audio.append(message(15, 5, until: 200))
        audio.append(message(20, 5, until: 300))
        let behindAnEvent = takeLate(at: 250)
        #expect(behindAnEvent == nil)
        #expect(audio.bytesBeforeLate(at: .milliseconds(250)) == 10)
        #expect(audio.lateBytes(at: .milliseconds(250)) == 10)
        audio.handleRemoved(10)
        let justInTime = takeLate(at: 100)
        #expect(justInTime == nil)
        for start in [10, 15] {
            let taken = takeLate(at: 250)
            #expect(taken == start)
            audio.handleRemoved(5)
        }
        let last = takeLate(at: 250)
        #expect(last == nil)
        #expect(audio.bytesBeforeLate(at: .milliseconds(250)) == nil)
        #expect(audio.bytesBeforeLate(at: .milliseconds(301)) == 0)
    }

    /// Three messages of five bytes: one of which a byte has left is not dropped.
    @Test(arguments: [(0, 0), (1, 1), (4, 1), (5, 1), (6, 2), (11, 3)])
    func finishesAMessageThatHasBegun(written: Int, kept: Int) {
        var audio = QueuedAudio()
        for start in [0, 5, 10] { audio.append(message(start, 5)) }
        audio.handleRemoved(written)
        let unsent = audio.take { _ in true }
        #expect(unsent == (kept..<3).map { $0 * 5 - written..<$0 * 5 + 5 - written })
    }

    @Test func takesTheMessagesOfAResponseOrAnItem() {
        var audio = QueuedAudio()
        audio.append(message(3, 4, response: "a", item: "x"))
        audio.append(message(7, 4, response: "b", item: "y"))
        audio.append(message(20, 4, response: "a", item: "z"))
        var other = audio
        let ofResponse = audio.take { $0.responseID == "a" }
        #expect(ofResponse == [3..<7, 20..<24])
        let rest = audio.take { _ in true }
        #expect(rest == [3..<7], "the rest has moved up")
        #expect(audio.isEmpty)
        let ofItem = other.take { $0.itemID == "y" }
        #expect(ofItem == [7..<11])
    }

    /// Random appends, writes and drops: what comes out is what was put in, less whole messages.
    @Test func agreesWithAPlainModel() {
        struct Entry {
            var bytes: [UInt8]
            var audio: Int?
        }
        for seed in UInt64(0)..<50 {
            var generator = SeededGenerator(seed: seed)
            let pool = ChunkPool()
            var buffer = SendBuffer()
            var audio = QueuedAudio()
            var model: [Entry] = []
            var received: [UInt8] = []
            var expected: [UInt8] = []
            var hasBegun = false
            for round in 0..<300 {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0, 1:
                    let count = Int.random(in: 1...9_000, using: &generator)
                    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &+ round) }
                    let isAudio = Bool.random(using: &generator)
                    if isAudio {
                        audio.append(
                            message(audio.removed + buffer.count, count, item: "\(round % 3)"))
                    }
                    bytes.withUnsafeBytes { buffer.append($0, pool: pool) }
                    model.append(Entry(bytes: bytes, audio: isAudio ? round % 3 : nil))
                case 2 where !buffer.isEmpty:
                    var left = Int.random(in: 1...buffer.front.count, using: &generator)
                    received += buffer.front[..<left]
                    buffer.removeFirst(left, pool: pool)
                    audio.handleRemoved(left)
                    while left > 0 {
                        let taken = min(left, model[0].bytes.count)
                        expected += model[0].bytes[..<taken]
                        model[0].bytes.removeFirst(taken)
                        left -= taken
                        hasBegun = !model[0].bytes.isEmpty
                        if !hasBegun { model.removeFirst() }
                    }
                default:
                    let item = Int.random(in: 0..<3, using: &generator)
                    buffer.remove(audio.take { $0.itemID == "\(item)" }, pool: pool)
                    let first = hasBegun ? model.removeFirst() : nil
                    model.removeAll { $0.audio == item }
                    if let first { model.insert(first, at: 0) }
                }
                #expect(buffer.count == model.reduce(0) { $0 + $1.bytes.count })
            }
            while !buffer.isEmpty {
                received += buffer.front
                buffer.removeFirst(buffer.front.count, pool: pool)
            }
            #expect(received == expected + model.flatMap(\.bytes))
            #expect(pool.chunksInUse == 0)
        }
    }
}
