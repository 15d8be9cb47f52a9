// The events that a client may have missed: order, bounds and memory.

import TestMaterial
import Testing

@testable import Server

@Suite struct ResumeLogTests {
    private func append(_ text: String, to log: inout ResumeLog, limit: Int = 1 << 20) {
        Array(text.utf8).withUnsafeBytes { log.append($0, limit: limit) }
    }

    private func texts(_ log: ResumeLog, after offset: UInt64) -> [String] {
        var texts: [String] = []
        log.forEach(after: offset) { texts.append(String(decoding: $0, as: UTF8.self)) }
        return texts
    }

    @Test func offsetsBeginWithOne() {
        var log = ResumeLog()
        #expect(log.next == 1 && log.isEmpty && log.covers(0) && !log.covers(1))
        append("a", to: &log)
        #expect(log.next == 2 && log.covers(0) && log.covers(1) && !log.covers(2))
        #expect(texts(log, after: 0) == ["a"] && texts(log, after: 1).isEmpty)
    }

    @Test func whatTheClientHasIsForgotten() {
        var log = ResumeLog()
        for text in ["a", "bb", "ccc"] { append(text, to: &log) }
        log.forget(through: 2)
        #expect(!log.covers(0) && !log.covers(1) && log.covers(2))
        #expect(texts(log, after: 2) == ["ccc"])
        log.forget(through: 99)
        #expect(log.isEmpty && log.next == 4 && log.heldBytes == 0)
    }

    @Test func beyondTheLimitTheOldestGo() {
        var log = ResumeLog()
        for text in ["aaaa", "bbbb", "cccc"] { append(text, to: &log, limit: 8) }
        #expect(log.first == 2 && texts(log, after: 1) == ["bbbb", "cccc"])
        append(String(repeating: "d", count: 9), to: &log, limit: 8)
        #expect(log.isEmpty && log.next == 5, "an event beyond the limit is not kept either")
    }

    /// Against a plain list.
    @Test(arguments: Seeds.chosen(from: 0..<40))
    func itIsAListOfTheLastEvents(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var log = ResumeLog()
        var model: [(offset: UInt64, text: String)] = []
        var next: UInt64 = 1
        for _ in 0..<400 {
            if Int.random(in: 0..<5, using: &random) > 0 {
                let text = String(repeating: "x", count: Int.random(in: 0..<60, using: &random))
                append(text, to: &log, limit: 1_000)
                model.append((next, text))
                next += 1
                while model.reduce(0, { $0 + $1.text.utf8.count }) > 1_000 { model.removeFirst() }
            } else {
                let offset = UInt64.random(in: 0..<next, using: &random)
                log.forget(through: offset)
                model.removeAll { $0.offset <= offset }
            }
            let first = model.first?.offset ?? next
            #expect(log.next == next)
            let offset = UInt64.random(in: 0...next, using: &random)
            #expect(log.covers(offset) == (offset < next && offset + 1 >= log.first))
            #expect(log.first <= first)
            guard log.covers(offset) else { continue }
            #expect(texts(log, after: offset) == model.filter { $0.offset > offset }.map(\.text))
        }
    }
}
