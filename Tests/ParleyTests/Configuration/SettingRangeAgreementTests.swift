// The options' ranges are the server's: what one accepts, the other must not refuse.

import Server
import Testing

@testable import parley

@Suite struct SettingRangeAgreementTests {
    @Test(arguments: SettingRange.all.map(\.name))
    func anOptionHasTheRangeOfItsSetting(name: String) throws {
        let range = try #require(SettingRange.all.first { $0.name == name })
        let option = try #require(ServeOptionTable.option(named: name))
        let (lower, upper) = (range.allowed.lowerBound, range.allowed.upperBound)
        #expect(option.allowed.hasPrefix("a whole number from \(lower) to \(upper)"))
        for value in [lower, upper] {
            var settings = ServeSettings()
            #expect(option.set("\(value)", &settings))
            #expect(range.value(settings.server) == value, "it must be the same setting")
        }
    }
}
