// Signs of life of a connection, on the clock of the test.

import Testing

@testable import parley

@Suite struct SignsOfLifeTests {
    @Test func aSilentServerIsAskedOnceAndThenLost() {
        var life = SignsOfLife(at: 100)
        #expect(life.need(at: 104.9) == nil)
        #expect(life.due == 105)
        #expect(life.need(at: 105) == .ping)
        #expect(life.need(at: 109.9) == nil)
        #expect(life.need(at: 110) == .end)
    }

    @Test func anyBytesAreASignOfLife() {
        var life = SignsOfLife(at: 0)
        #expect(life.need(at: 5) == .ping)
        life.noteBytes(at: 9)
        #expect(life.due == 14)
        #expect(life.need(at: 13) == nil)
        #expect(life.need(at: 14) == .ping)
    }

    @Test func aProcessThatSleptAsksFirst() {
        var life = SignsOfLife(at: 0)
        #expect(life.need(at: 3_600) == .ping)
        #expect(life.due == 3_605)
    }
}
