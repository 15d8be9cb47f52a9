// Pacing of reply audio, and the samples that wait for it.

import Testing

@testable import Session

@Suite struct PlayoutPacerTests {
    @Test func audioLeavesAsItIsPlayedPlusTheLead() {
        var pacer = PlayoutPacer(lead: .milliseconds(500))
        #expect(pacer.allowance(at: .milliseconds(0)) == 500)
        pacer.handleSent(milliseconds: 500, at: .milliseconds(0))
        #expect(pacer.allowance(at: .milliseconds(0)) == 0)
        #expect(pacer.allowance(at: .milliseconds(100)) == 100)
        #expect(pacer.nextSend(after: .milliseconds(0)) == .milliseconds(100))
        // Due already: at once, but never now or before.
        let overdue = pacer.nextSend(after: .milliseconds(150))
        #expect(overdue.nanoseconds == Instant.milliseconds(150).nanoseconds + 1)
    }

    @Test func aStarvedPlayoutStartsAfreshInsteadOfCatchingUp() {
        var pacer = PlayoutPacer(lead: .milliseconds(500))
        pacer.handleSent(milliseconds: 200, at: .milliseconds(0))
        #expect(pacer.allowance(at: .milliseconds(5_000)) == 500)
        pacer.handleSent(milliseconds: 500, at: .milliseconds(5_000))
        #expect(pacer.playedOut == .milliseconds(5_500))
    }

    @Test func theNextSendIsAlwaysAfterNow() {
        var pacer = PlayoutPacer(lead: .milliseconds(0))
        #expect(pacer.lead == PlayoutPacer.quantum)
        pacer.handleSent(milliseconds: 1, at: .milliseconds(0))
        let now = Instant.milliseconds(0)
        #expect(pacer.nextSend(after: now) > now)
    }
}

@Suite struct ItemSpeechQueueTests {
    @Test func samplesLeaveInOrderWhateverTheChunks() {
        var queue = ItemSpeechQueue()
        let samples = (0..<1_000).map { Int16($0) }
        for start in stride(from: 0, to: 1_000, by: 37) {
            let chunk = Array(samples[start..<min(start + 37, 1_000)])
            queue.append(SpeechChunk(samples: chunk, rate: .hz16000))
        }
        #expect(queue.count == 3_000)
        // Each chunk is a block of its own, and there is a list of them.
        #expect((2_000..<8_000).contains(queue.heldBytes), "\(queue.heldBytes)")
        var taken: [Int16] = []
        var room = [Int16](repeating: 0, count: 64)
        while queue.count > 0 {
            let count = room.withUnsafeMutableBufferPointer { queue.takeSamples(into: $0) }
            taken += room[..<count]
        }
        #expect(taken == samples)
    }
}
