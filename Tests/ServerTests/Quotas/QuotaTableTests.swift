// The table of shared quotas: units taken from several accounts or from none, units given back, and
// the bound on its entries.

import Codec
import Session
import Testing

@testable import Server

@Suite struct QuotaTableTests {
    private static let start = Instant.milliseconds(1_000)

    private static func key(_ name: String) -> QuotaSubject { .principal(SHA256Digest(of: name)) }

    private static func address(_ number: Int) -> QuotaSubject {
        .address(NetworkAddress("10.0.\(number / 256).\(number % 256)") ?? .unspecified)
    }

    private func account(_ subject: QuotaSubject, _ quotas: String...) -> QuotaAccount {
        QuotaAccount(subject: subject, quotas: quotas.compactMap(Quota.init))
    }

    @Test func takesFromAllAccountsOrFromNone() throws {
        let table = QuotaTable()
        let key = account(Self.key("a"), "turns=5/minute")
        let address = account(Self.address(1), "turns=2/minute")
        #expect(try table.take(2, of: .turns, from: [key, address], at: Self.start) == 2)
        #expect(throws: ExhaustedAccount.self) {
            try table.take(1, of: .turns, from: [key, address], at: Self.start)
        }
        #expect(
            try table.take(9, of: .turns, from: [key], at: Self.start) == 3,
            "the refused turn was not taken from the key")
    }

    @Test func theRefusalNamesTheQuotaThatLastsLongest() throws {
        let table = QuotaTable()
        let key = account(Self.key("a"), "turns=1/minute", "turns=1/day")
        #expect(try table.take(1, of: .turns, from: [key], at: Self.start) == 1)
        let exhausted = try #require(table.exhausted(.turns, in: [key], at: Self.start))
        #expect(exhausted.exhausted.quota.period == .day)
        #expect(exhausted.exhausted.wait == .seconds(86_400))
    }

    @Test func unitsAreCountedApart() throws {
        let table = QuotaTable()
        let key = account(Self.key("a"), "turns=1/minute", "tokens=10/minute")
        #expect(try table.take(1, of: .turns, from: [key], at: Self.start) == 1)
        #expect(table.exhausted(.tokens, in: [key], at: Self.start) == nil)
        #expect(
            try table.take(7, of: .events, from: [key], at: Self.start) == 7, "it has no such quota"
        )
    }

    @Test func whatWasNotUsedIsThereAgain() throws {
        let table = QuotaTable()
        let key = account(Self.key("a"), "events=16/minute")
        #expect(try table.take(16, of: .events, from: [key], at: Self.start) == 16)
        table.refund(10, of: .events, to: [key])
        #expect(table.balance(of: .events, in: [key], at: Self.start)?.remaining == 10)
        table.refund(1, of: .events, to: [account(Self.key("unknown"), "events=16/minute")])
        #expect(table.count == 1, "giving back makes no entry")
    }

    @Test func theBalanceIsThatOfTheQuotaWithLeastLeft() {
        let table = QuotaTable()
        let key = account(Self.key("a"), "tokens=100/minute", "tokens=60/day")
        table.charge(50, of: .tokens, to: [key], at: Self.start)
        let balance = table.balance(of: .tokens, in: [key], at: Self.start)
        #expect(balance?.quota.period == .day && balance?.remaining == 10)
        #expect(balance?.reset == .seconds(72_000))
        #expect(table.balance(of: .turns, in: [key], at: Self.start) == nil)
    }

    @Test func entriesThatAreFullAgainGo() {
        let table = QuotaTable()
        for number in 0..<1_000 {
            let address = account(Self.address(number), "turns=1/minute")
            let now = Self.start + .seconds(number)
            table.charge(1, of: .turns, to: [address], at: now)
        }
        #expect(table.count <= 70, "60 of them are not full, and a few were not looked at yet")
    }

    @Test func aFloodOfAddressesPushesOutWhatIsNearlyFull() {
        let table = QuotaTable(maxSubjects: 100)
        let key = account(Self.key("a"), "turns=1/day")
        let heavy = account(Self.address(0), "turns=1/day")
        table.charge(1, of: .turns, to: [key, heavy], at: Self.start)
        for number in 1..<5_000 {
            let address = account(Self.address(number), "turns=1/minute")
            table.charge(1, of: .turns, to: [address], at: Self.start)
            #expect(table.count <= 101)
        }
        #expect(table.exhausted(.turns, in: [key], at: Self.start) != nil)
        #expect(table.exhausted(.turns, in: [heavy], at: Self.start) != nil)
    }
}
