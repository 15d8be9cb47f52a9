// Quotas as texts: what is read, what is refused, and which of two lists counts.

import Codec
import Testing

@Suite struct QuotaTests {
    @Test(arguments: [
        ("turns=20/minute", Quota(.turns, 20, per: .minute)),
        ("audio-seconds=1/day", Quota(.audioSeconds, 1, per: .day)),
        ("tokens=1000000000/day", Quota(.tokens, 1_000_000_000, per: .day)),
    ])
    func readsWhatItWrites(text: String, quota: Quota) {
        #expect(Quota(text) == quota)
        #expect(quota.description == text)
    }

    @Test(arguments: [
        "", "turns", "turns=", "turns=20", "turns=/minute", "turns=20/", "turns=20/hour",
        "Turns=20/minute", "turns=0/minute", "turns=-1/minute", "turns=1000000001/day",
        "turns=2.5/minute", "turns=20/minute/day", "turns=20=20/minute",
        "turns=99999999999999999999/day",
        " turns=20/minute",
    ])
    func refusesOtherTexts(text: String) {
        #expect(Quota(text) == nil)
    }

    @Test func aListHasOneQuotaForEachUnitAndPeriod() {
        #expect([Quota](texts: ["turns=1/minute", "turns=1/day", "tokens=1/minute"])?.count == 3)
        #expect([Quota](texts: ["turns=1/minute", "turns=2/minute"]) == nil)
        #expect([Quota](texts: ["turns=1/minute", "no quota"]) == nil)
        #expect([Quota](texts: []) == [])
    }

    @Test func ownQuotasComeBeforeTheOthers() {
        let own = [Quota(.turns, 5, per: .minute)]
        let others = [Quota(.turns, 9, per: .minute), Quota(.turns, 90, per: .day)]
        #expect(own.completed(by: others) == [own[0], others[1]])
        #expect([Quota]().completed(by: others) == others)
    }
}
