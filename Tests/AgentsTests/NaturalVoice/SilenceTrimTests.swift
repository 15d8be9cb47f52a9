// The silence that stays around a clause.

import Testing

@testable import Agents

@Suite struct SilenceTrimTests {
    private func trimmed(_ samples: [Float], mark: Character?, piece: Int) -> [Float] {
        var trim = SilenceTrim(mark: mark)
        var result: [Float] = []
        for start in stride(from: 0, to: samples.count, by: piece) {
            result += trim.append(samples[start..<min(start + piece, samples.count)])
        }
        return result + trim.finish()
    }

    /// 300 ms of silence, a second of sound at a level, half a second of silence.
    private func clause(level: Float = 0.1) -> [Float] {
        [Float](repeating: 0, count: 7_200) + [Float](repeating: level, count: 24_000)
            + [Float](repeating: 0, count: 12_000)
    }

    @Test(arguments: [",": 120, ";": 150, ":": 150, ".": 300, "?": 300, "!": 300, "x": 300])
    func theMarkDecidesOnThePause(mark: Character, milliseconds: Int) {
        for piece in [1, 100, 120, 4_800, 100_000] {
            let result = trimmed(clause(), mark: mark, piece: piece)
            #expect(result.count == 720 + 24_000 + milliseconds * 24)
            #expect(result[..<720].allSatisfy { $0 == 0 })
            #expect(result[720..<24_720].allSatisfy { $0 == 0.1 })
        }
        #expect(trimmed(clause(), mark: nil, piece: 480).count == 720 + 24_000 + 7_200)
    }

    @Test func silenceInsideStays() {
        let samples = clause() + clause()
        let result = trimmed(samples, mark: ",", piece: 4_800)
        #expect(result.count == samples.count - (7_200 - 720) - (12_000 - 2_880))
    }

    @Test func soundAtTheEdgesFades() {
        let result = trimmed(Array(repeating: 0.5, count: 2_400), mark: ".", piece: 480)
        #expect(result.count == 2_400)
        #expect(result[0] == 0 && result[120] == 0.25 && result[240] == 0.5)
        #expect(result[2_159] == 0.5 && result[2_399] == 0)
    }

    @Test func aClauseThatIsNowhereLoudIsLeftOut() {
        #expect(trimmed(clause(level: 0.002), mark: ".", piece: 4_800).isEmpty)
        #expect(trimmed([], mark: ".", piece: 1).isEmpty)
        #expect(trimmed(clause(level: .nan), mark: ".", piece: 4_800).isEmpty)
    }
}
