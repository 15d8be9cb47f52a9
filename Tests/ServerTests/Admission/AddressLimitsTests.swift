// The table of addresses: its limits, and that it stays small.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct AddressLimitsTests {
    private func limits(
        connections: Int = 0, rate: Int = 0, burst: Int = 1, total: Int = 0, places: Int = 20_000
    ) -> AddressLimits {
        var settings = AdmissionSettings()
        settings.maxConnectionsPerAddress = connections
        settings.handshakesPerSecondPerAddress = rate
        settings.handshakeBurstPerAddress = burst
        settings.handshakesPerSecond = total
        settings.maxConnections = places
        return AddressLimits(settings)
    }

    private let one = NetworkAddress(v4: 1)
    private let two = NetworkAddress(v4: 2)

    /// Admits until the address is refused.
    private func admitted(
        _ limits: AddressLimits, _ address: NetworkAddress, at now: Instant, atMost most: Int = 100
    ) -> (places: [AddressPlace], reason: RefusalReason?) {
        var places: [AddressPlace] = []
        for _ in 0..<most {
            switch limits.admit(address, at: now) {
            case .admitted(let place): places.append(place)
            case .refused(let reason): return (places, reason)
            }
        }
        return (places, nil)
    }

    @Test func withoutLimitsNoAddressIsStored() {
        let limits = limits()
        #expect(limits.admit(one, at: .milliseconds(0)) == .admitted(.none))
        #expect(limits.trackedAddresses == 0)
        limits.release(.none, at: .milliseconds(0))
    }

    @Test func anAddressHasItsConnectionsAndNoMore() {
        let limits = limits(connections: 3)
        let (places, reason) = admitted(limits, one, at: .milliseconds(0))
        #expect(places.count == 3 && reason == .addressConnections)
        #expect(admitted(limits, two, at: .milliseconds(0)).places.count == 3)
        limits.release(places[0], at: .milliseconds(1))
        #expect(admitted(limits, one, at: .milliseconds(1)).places.count == 1)
    }

    @Test func aBucketHoldsItsBurstAndFillsAtItsRate() {
        let limits = limits(rate: 10, burst: 5)
        #expect(admitted(limits, one, at: .milliseconds(0)).places.count == 5)
        #expect(admitted(limits, one, at: .milliseconds(99)).reason == .addressRate)
        #expect(admitted(limits, one, at: .milliseconds(99)).places.count == 0)
        #expect(admitted(limits, one, at: .milliseconds(100)).places.count == 1)
        #expect(admitted(limits, one, at: .milliseconds(400)).places.count == 3)
        #expect(admitted(limits, one, at: .milliseconds(60_000)).places.count == 5)
        #expect(admitted(limits, two, at: .milliseconds(60_000)).places.count == 5)
    }

    @Test func aRefusalCostsNoToken() {
        let limits = limits(connections: 1, rate: 1, burst: 2)
        let places = admitted(limits, one, at: .milliseconds(0)).places
        #expect(places.count == 1)
        #expect(admitted(limits, one, at: .milliseconds(1)).reason == .addressConnections)
        limits.release(places[0], at: .milliseconds(2))
        #expect(admitted(limits, one, at: .milliseconds(3)).places.count == 1)
    }

    @Test func allAddressesTogetherHaveARate() {
        let limits = limits(total: 4)
        for value in UInt32(1)...4 {
            let address = NetworkAddress(v4: value)
            #expect(limits.admit(address, at: .milliseconds(0)) == .admitted(.none))
        }
        #expect(limits.admit(one, at: .milliseconds(249)) == .refused(.totalRate))
        #expect(limits.admit(one, at: .milliseconds(250)) == .admitted(.none))
        #expect(limits.trackedAddresses == 0)
    }

    @Test func theTotalRefusesBeforeTheAddressSpendsAToken() {
        let limits = limits(rate: 1, burst: 1, total: 1)
        #expect(limits.admit(one, at: .milliseconds(0)) != .refused(.totalRate))
        #expect(limits.admit(two, at: .milliseconds(0)) == .refused(.totalRate))
        #expect(limits.trackedAddresses == 1, "a refused address is not stored")
        #expect(limits.admit(two, at: .milliseconds(1_000)) != .refused(.addressRate))
    }

    @Test func aNetworkOfIPv6CountsAsOne() throws {
        let limits = limits(connections: 2)
        for text in ["2001:db8::1", "2001:db8::ffff:0:0:1"] {
            let address = try #require(NetworkAddress(text))
            #expect(limits.admit(address, at: .milliseconds(0)) != .refused(.addressConnections))
        }
        let third = try #require(NetworkAddress("2001:db8::2"))
        #expect(limits.admit(third, at: .milliseconds(0)) == .refused(.addressConnections))
        let other = try #require(NetworkAddress("2001:db8:0:1::2"))
        #expect(limits.admit(other, at: .milliseconds(0)) != .refused(.addressConnections))
    }

    @Test func anEntryGoesWithItsLastConnectionOnceItsBucketIsFull() {
        let limits = limits(connections: 10, rate: 10, burst: 5)
        let places = admitted(limits, one, at: .milliseconds(0), atMost: 3).places
        for place in places { limits.release(place, at: .milliseconds(10)) }
        #expect(limits.trackedAddresses == 1, "its bucket is not full")
        // The next call, for any address, sweeps.
        _ = limits.admit(two, at: .milliseconds(299))
        #expect(limits.trackedAddresses == 2)
        _ = limits.admit(two, at: .milliseconds(300))
        #expect(limits.trackedAddresses == 1)
    }

    @Test func anEntryInUseAgainIsKept() {
        let limits = limits(connections: 2)
        for step in 0..<100 {
            let place = admitted(limits, one, at: .milliseconds(step), atMost: 1).places[0]
            #expect(admitted(limits, two, at: .milliseconds(step), atMost: 1).places.count <= 1)
            limits.release(place, at: .milliseconds(step))
        }
        #expect(admitted(limits, one, at: .milliseconds(200)).places.count == 2)
        #expect(limits.trackedAddresses == 2)
    }

    @Test func itForgetsAsFastAsItLearns() {
        // Buckets take a second to fill: some 1,000 addresses may wait for that, no more.
        let limits = limits(connections: 1, rate: 1, burst: 1)
        for value in 0..<50_000 {
            let address = NetworkAddress(v4: UInt32(value))
            let now = Instant.milliseconds(value)
            let place = admitted(limits, address, at: now, atMost: 1).places[0]
            limits.release(place, at: now)
            #expect(limits.trackedAddresses <= 1_002)
        }
    }

    @Test func aFloodOfAddressesPushesOutTheOldestWithoutAConnection() {
        // A bucket that needs an hour keeps its entry; the bound does not.
        let limits = limits(connections: 2, rate: 1, burst: 3_600, places: 10)
        let now = Instant.milliseconds(0)
        let held = admitted(limits, one, at: now, atMost: 2).places
        let bound = 10 + AddressRules.spareEntries
        for value in 0..<(bound + 5_000) {
            let address = NetworkAddress(v4: 1_000 + UInt32(value))
            let place = admitted(limits, address, at: now, atMost: 1).places[0]
            limits.release(place, at: now)
        }
        #expect(limits.trackedAddresses == bound)
        #expect(admitted(limits, one, at: now).reason == .addressConnections, "it is still known")
        for place in held { limits.release(place, at: now) }
        #expect(admitted(limits, one, at: now).places.count == 2)
    }

    @Test func manyAddressesComeAndGoAndTheTableStaysTrue() {
        // Compared with a model that never removes an entry.
        let limits = limits(connections: 3, rate: 50, burst: 4)
        var generator = SeededGenerator(seed: 3)
        var open: [(address: UInt32, place: AddressPlace)] = []
        for step in 0..<20_000 {
            let now = Instant.milliseconds(step)
            let address = UInt32.random(in: 0..<40, using: &generator)
            let count = open.count { $0.address == address }
            if Bool.random(using: &generator), !open.isEmpty {
                let gone = open.remove(at: Int.random(in: 0..<open.count, using: &generator))
                limits.release(gone.place, at: now)
                continue
            }
            switch limits.admit(NetworkAddress(v4: address), at: now) {
            case .admitted(let place):
                #expect(count < 3)
                #expect(open.filter { $0.place == place }.allSatisfy { $0.address == address })
                open.append((address, place))
            case .refused(.addressConnections): #expect(count == 3)
            case .refused(let reason): #expect(reason == .addressRate && count < 3)
            }
        }
        for each in open { limits.release(each.place, at: .milliseconds(100_000)) }
        for _ in 0..<30 { _ = limits.admit(one, at: .milliseconds(200_000)) }
        #expect(limits.trackedAddresses == 1)
    }
}
