// How much of the server one address may take: open connections, and new ones per time. One table
// for the whole process, because the kernel spreads an address's connections over all shards.
// It is touched at accept, at an upgrade behind a proxy and at close, never per message.
//
// Invariant: an entry exists only while its address holds a connection or its bucket is not full.
// Entries are bounded by `maxConnections` + `spareEntries`; at the bound the entry that has been
// without a connection for longest goes, so every call takes constant time.

import Codec
import Session
import Synchronization

/// What an address owes for an open connection: the place of its entry. 4 bytes, for `Connection`.
package struct AddressCharge: Equatable, Sendable {
    fileprivate let entry: UInt32

    /// Nothing: the address is exempt, or limits are off.
    package static let none = AddressCharge(entry: .max)
}

/// The limits and their table. Any thread.
package final class AddressLimits: Sendable {
    /// What became of a request to be admitted.
    package enum Outcome: Equatable, Sendable {
        /// Welcome; the charge is to be released when the connection ends.
        case admitted(AddressCharge)
        /// Over a limit; nothing was taken.
        case refused(RefusalReason)
    }

    private let rules: AddressRules
    private let state: Mutex<AddressTable>

    /// Creates the table for the limits of a configuration.
    package init(_ configuration: ServerConfiguration) {
        rules = AddressRules(configuration)
        state = Mutex(AddressTable(rules))
    }

    /// Creates a table for failed attempts: no places, only tokens.
    package init(failuresPerMinute: Int) {
        rules = AddressRules(failuresPerMinute: failuresPerMinute)
        state = Mutex(AddressTable(rules))
    }

    /// Whether an address has no token left.
    package func isExhausted(_ address: NetworkAddress, at now: Instant) -> Bool {
        guard rules.areOn else { return false }
        return state.withLock { $0.isExhausted(address.subscriber, at: now) }
    }

    /// Takes a token of an address, if it has one, and no place.
    package func spend(_ address: NetworkAddress, at now: Instant) {
        if case .admitted(let charge) = admit(address, at: now) { release(charge, at: now) }
    }

    /// Takes a place and a token for an address, or says which limit is in the way.
    package func admit(_ address: NetworkAddress, at now: Instant) -> Outcome {
        guard rules.areOn else { return .admitted(.none) }
        return state.withLock { $0.admit(address.subscriber, at: now) }
    }

    /// The connection has ended. Once per charge.
    package func release(_ charge: AddressCharge, at now: Instant) {
        guard charge != .none else { return }
        state.withLock { $0.release(charge, at: now) }
    }

    /// Whose charge it is; nil for none. An IPv6 address stands for its /64.
    func address(of charge: AddressCharge) -> NetworkAddress? {
        guard charge != .none else { return nil }
        return state.withLock { $0.address(of: charge) }
    }

    /// Addresses that the table knows now.
    package var trackedAddresses: Int { state.withLock { $0.count } }
}

/// The limits in the table's own terms.
struct AddressRules {
    /// Entries beyond those that can hold a connection, for buckets that fill up. 65,536: some
    /// 6 MB at most, and more addresses than come and go in the seconds that a bucket takes.
    static let spareEntries = 65_536

    /// 0 is no limit.
    let maxConnections: Int
    let rate: TokenRate
    let totalRate: TokenRate
    let maxEntries: Int

    init(_ configuration: ServerConfiguration) {
        maxConnections = configuration.maxConnectionsPerAddress
        rate = TokenRate(
            perSecond: configuration.handshakesPerSecondPerAddress,
            burst: configuration.handshakeBurstPerAddress)
        // A second's worth: shards take turns, and a second is what an operator thinks in.
        totalRate = TokenRate(
            perSecond: configuration.handshakesPerSecond, burst: configuration.handshakesPerSecond)
        maxEntries = configuration.maxConnections + AddressRules.spareEntries
    }

    /// A rate for each address and nothing else.
    init(failuresPerMinute: Int) {
        maxConnections = 0
        rate = TokenRate(perMinute: failuresPerMinute)
        totalRate = TokenRate(perSecond: 0, burst: 1)
        maxEntries = AddressRules.spareEntries
    }

    /// Whether addresses are told apart at all.
    var arePerAddress: Bool { maxConnections > 0 || rate.interval > 0 }
    /// Whether there is any limit.
    var areOn: Bool { arePerAddress || totalRate.interval > 0 }
}

/// The entries. Those without a connection wait in a list, in the order in which they lost their
/// last one, until their bucket is full.
struct AddressTable {
    private struct Entry {
        var address: NetworkAddress
        var connections: UInt32 = 0
        var bucket = TokenBucket()
        /// Neighbours in the list of those without a connection.
        var previous = AddressTable.nobody
        var next = AddressTable.nobody
    }

    private static let nobody = UInt32.max
    /// Entries looked at per call for one that may go. Two: more leave than come.
    private static let sweptPerCall = 2

    private let rules: AddressRules
    private var entries: [Entry] = []
    private var freeEntries: [UInt32] = []
    private var index = AddressIndex()
    private var firstIdle = AddressTable.nobody
    private var lastIdle = AddressTable.nobody
    private var total = TokenBucket()

    init(_ rules: AddressRules) { self.rules = rules }

    /// Entries in use.
    var count: Int { index.count }

    mutating func admit(_ address: NetworkAddress, at now: Instant) -> AddressLimits.Outcome {
        sweep(at: now)
        let known = index[address]
        if let known {
            let entry = entries[Int(known)]
            if rules.maxConnections > 0, entry.connections >= rules.maxConnections {
                return .refused(.addressConnections)
            }
            guard entry.bucket.hasToken(rules.rate, at: now) else {
                return .refused(.addressRate)
            }
        }
        guard total.hasToken(rules.totalRate, at: now) else { return .refused(.totalRate) }
        total.take(rules.totalRate, at: now)
        guard rules.arePerAddress else { return .admitted(.none) }
        let place = known ?? addEntry(address)
        if entries[Int(place)].connections == 0, known != nil { unlink(place) }
        entries[Int(place)].connections += 1
        entries[Int(place)].bucket.take(rules.rate, at: now)
        return .admitted(AddressCharge(entry: place))
    }

    func address(of charge: AddressCharge) -> NetworkAddress { entries[Int(charge.entry)].address }

    func isExhausted(_ address: NetworkAddress, at now: Instant) -> Bool {
        index[address].map { !entries[Int($0)].bucket.hasToken(rules.rate, at: now) } ?? false
    }

    mutating func release(_ charge: AddressCharge, at now: Instant) {
        precondition(entries[Int(charge.entry)].connections > 0, "released twice")
        entries[Int(charge.entry)].connections -= 1
        if entries[Int(charge.entry)].connections == 0 { appendIdle(charge.entry) }
        sweep(at: now)
    }

    /// Lets entries go whose bucket is full. Who waits longest is looked at first; one whose
    /// bucket takes longer than those behind it keeps them for that time.
    private mutating func sweep(at now: Instant) {
        for _ in 0..<AddressTable.sweptPerCall {
            guard firstIdle != AddressTable.nobody,
                entries[Int(firstIdle)].bucket.full <= now
            else { return }
            remove(firstIdle)
        }
    }

    private mutating func addEntry(_ address: NetworkAddress) -> UInt32 {
        // Only entries without a connection can be so many: the others are within maxConnections.
        if index.count >= rules.maxEntries, firstIdle != AddressTable.nobody { remove(firstIdle) }
        let place: UInt32
        if let free = freeEntries.popLast() {
            place = free
            entries[Int(place)] = Entry(address: address)
        } else {
            // Once for all: it is address space, and memory only as it is used.
            if entries.isEmpty { entries.reserveCapacity(min(rules.maxEntries, 1 << 20)) }
            place = UInt32(entries.count)
            entries.append(Entry(address: address))
        }
        index[address] = place
        return place
    }

    private mutating func remove(_ place: UInt32) {
        unlink(place)
        index[entries[Int(place)].address] = nil
        if index.count == 0 {
            // Nobody holds a place: what many addresses took is given back.
            (entries, freeEntries) = ([], [])
        } else {
            freeEntries.append(place)
        }
    }

    // MARK: The list

    private mutating func appendIdle(_ place: UInt32) {
        entries[Int(place)].previous = lastIdle
        entries[Int(place)].next = AddressTable.nobody
        if lastIdle == AddressTable.nobody {
            firstIdle = place
        } else {
            entries[Int(lastIdle)].next = place
        }
        lastIdle = place
    }

    private mutating func unlink(_ place: UInt32) {
        let (previous, next) = (entries[Int(place)].previous, entries[Int(place)].next)
        if previous == AddressTable.nobody {
            firstIdle = next
        } else {
            entries[Int(previous)].next = next
        }
        if next == AddressTable.nobody {
            lastIdle = previous
        } else {
            entries[Int(next)].previous = previous
        }
    }
}
