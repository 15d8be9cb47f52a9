// What preparing a text for an embedded voice costs: its length and no more. SessionTests' TextCostTests
// has the readers that this one uses.

import Codec
import TestMaterial
import Testing

@testable import Agents

@Suite struct SpokenTextCostTests {
    @Test func spokenText() {
        let found = TextShape.tooExpensive(bytes: 3_000) { text in
            TextSteps.counting { _ = SpokenText.pieces(of: text) }
        }
        #expect(found == [])
    }
}
