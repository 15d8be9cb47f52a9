// The limits of one address: open connections, and new connections per second. One table serves the
// whole process, because the kernel spreads an address's connections over all shards. It is used at
// accept, at an upgrade behind a proxy and at close, never per message.
//
// Invariant: an entry exists only while its address has a connection or its bucket is not full.
// Entries are bounded by `maxConnections` + `spareEntries`; at the bound the entry that has been
// without a connection for longest goes, so every call takes constant time.

import Codec
import Session
import Synchronization

/// The place of the address that an open connection counts for. 4 bytes, for `Connection`.
package struct AddressPlace: Equatable, Sendable {
    fileprivate let entry: UInt32

    /// Nothing: the address is exempt, or limits are off.
    package static let none = AddressPlace(entry: .max)
}

/// The limits and their table. Any thread.
package final class AddressLimits: Sendable {
    /// The outcome of an admission.
    package enum Outcome: Equatable, Sendable {
        /// The connection is counted; to be released when it ends.
        case admitted(AddressPlace)
        /// Over a limit; the connection is not counted.
        case refused(RefusalReason)
    }

    private let rules: AddressRules
    private let state: Mutex<AddressTable>

    /// Creates the table for the limits of a server.
    package init(_ settings: AdmissionSettings) {
        rules = AddressRules(settings)
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
    /// - Returns: whether it had one.
    @discardableResult
    package func spend(_ address: NetworkAddress, at now: Instant) -> Bool {
        guard case .admitted(let place) = admit(address, at: now) else { return false }
        release(place, at: now)
        return true
    }

    /// Gives a token back that `spend` has taken.
    package func refund(_ address: NetworkAddress) {
        state.withLock { $0.refund(address.subscriber) }
    }

    /// Takes a place and a token for an address, or returns the limit that is reached.
    package func admit(_ address: NetworkAddress, at now: Instant) -> Outcome {
        guard rules.areOn else { return .admitted(.none) }
        return state.withLock { $0.admit(address.subscriber, at: now) }
    }

    /// Releases the place of a connection that has ended. Called once per place.
    package func release(_ place: AddressPlace, at now: Instant) {
        guard place != .none else { return }
        state.withLock { $0.release(place, at: now) }
    }

    /// The address that a connection counts for; nil for none. An IPv6 address stands for its /64.
    func address(of place: AddressPlace) -> NetworkAddress? {
        guard place != .none else { return nil }
        return state.withLock { $0.address(of: place) }
    }

    /// Bytes of the table.
    package var memory: HeldMemory { state.withLock { $0.memory } }

    /// Addresses that the table knows now.
    package var trackedAddresses: Int { state.withLock { $0.count } }
}

/// The limits, as the table uses them.
struct AddressRules {
    /// Entries beyond those with a connection, for buckets that fill up. 65,536: at most 6 MB, and
    /// more addresses than come and go in the seconds that a bucket takes to fill.
    static let spareEntries = 65_536

    /// 0 is no limit.
    let maxConnections: Int
    let rate: TokenRate
    let totalRate: TokenRate
    let maxEntries: Int

    init(_ settings: AdmissionSettings) {
        maxConnections = settings.maxConnectionsPerAddress
        rate = TokenRate(
            perSecond: settings.handshakesPerSecondPerAddress,
            burst: settings.handshakeBurstPerAddress)
        // A burst of one second: shards accept in turn, and operators think in seconds.
        totalRate = TokenRate(
            perSecond: settings.handshakesPerSecond, burst: settings.handshakesPerSecond)
        maxEntries = settings.maxConnections + AddressRules.spareEntries
    }

    /// A rate for each address and nothing else.
    init(failuresPerMinute: Int) {
        maxConnections = 0
        rate = TokenRate(perMinute: failuresPerMinute)
        totalRate = TokenRate(perSecond: 0, burst: 1)
        maxEntries = AddressRules.spareEntries
    }

    /// Whether there is a limit per address.
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
        var previous = AddressTable.none
        var next = AddressTable.none
    }

    private static let none = UInt32.max
    /// Entries that a call tries to remove. Two: more leave than come.
    private static let sweptPerCall = 2

    private let rules: AddressRules
    private var entries: [Entry] = []
    private var freeEntries: [UInt32] = []
    private var index = AddressIndex()
    private var firstIdle = AddressTable.none
    private var lastIdle = AddressTable.none
    private var total = TokenBucket()

    init(_ rules: AddressRules) { self.rules = rules }

    /// Entries in use.
    var count: Int { index.count }

    /// Its bytes. The room for more entries is address space that was never written.
    var memory: HeldMemory {
        let unused = (entries.capacity - entries.count) * MemoryLayout<Entry>.stride
        return HeldMemory(
            bytes: entries.heapBytes - unused + freeEntries.heapBytes + index.heapBytes,
            untouched: unused)
    }

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
        return .admitted(AddressPlace(entry: place))
    }

    func address(of place: AddressPlace) -> NetworkAddress { entries[Int(place.entry)].address }

    func isExhausted(_ address: NetworkAddress, at now: Instant) -> Bool {
        index[address].map { !entries[Int($0)].bucket.hasToken(rules.rate, at: now) } ?? false
    }

    /// An address without an entry has all of its tokens.
    mutating func refund(_ address: NetworkAddress) {
        guard rules.rate.interval > 0, let entry = index[address] else { return }
        entries[Int(entry)].bucket.refund(1, rules.rate)
    }

    mutating func release(_ place: AddressPlace, at now: Instant) {
        precondition(entries[Int(place.entry)].connections > 0, "released twice")
        entries[Int(place.entry)].connections -= 1
        if entries[Int(place.entry)].connections == 0 { appendIdle(place.entry) }
        sweep(at: now)
    }

    /// Removes entries whose bucket is full, the one that waits longest first. An entry whose
    /// bucket takes longer delays the removal of those behind it.
    private mutating func sweep(at now: Instant) {
        for _ in 0..<AddressTable.sweptPerCall {
            guard firstIdle != AddressTable.none,
                entries[Int(firstIdle)].bucket.full <= now
            else { return }
            remove(firstIdle)
        }
    }

    private mutating func addEntry(_ address: NetworkAddress) -> UInt32 {
        // Only entries without a connection can be so many: the others are within maxConnections.
        if index.count >= rules.maxEntries, firstIdle != AddressTable.none { remove(firstIdle) }
        let place: UInt32
        if let free = freeEntries.popLast() {
            place = free
            entries[Int(place)] = Entry(address: address)
        } else {
            // All at once: it is address space, and becomes memory only with use.
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
            // No address has an entry: the memory is given back.
            (entries, freeEntries) = ([], [])
        } else {
            freeEntries.append(place)
        }
    }

    // MARK: The list

    private mutating func appendIdle(_ place: UInt32) {
        entries[Int(place)].previous = lastIdle
        entries[Int(place)].next = AddressTable.none
        if lastIdle == AddressTable.none {
            firstIdle = place
        } else {
            entries[Int(lastIdle)].next = place
        }
        lastIdle = place
    }

    private mutating func unlink(_ place: UInt32) {
        let (previous, next) = (entries[Int(place)].previous, entries[Int(place)].next)
        if previous == AddressTable.none {
            firstIdle = next
        } else {
            entries[Int(previous)].next = next
        }
        if next == AddressTable.none {
            lastIdle = previous
        } else {
            entries[Int(next)].previous = previous
        }
    }
}
