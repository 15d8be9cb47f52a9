// A shard's deadlines: a binary heap that gives the earliest, and finds any by its handle.
// It reads no clock and calls nothing; the shard asks it once per tick.
//
// Invariant: no entry is earlier than its parent, and `positions` of each entry's handle is where
// the entry is. Equal deadlines expire in the order in which they were scheduled. Up to the
// capacity nothing is ever moved to make room: memory is asked for at once, and the kernel gives it
// page by page as it is used. A queue that was long and is short again gives it back.

import Session

/// Names a scheduled deadline of a queue until it expires or is cancelled; then it may name another.
struct DeadlineHandle: Equatable, Sendable {
    fileprivate let index: Int32
    /// Names no deadline. Takes less room in a connection than an optional.
    static var none: DeadlineHandle { DeadlineHandle(index: -1) }
}

/// Deadlines in order, each with its owner.
struct DeadlineQueue<Owner> {
    private struct Entry {
        var deadline: Instant
        /// Order of scheduling, for ties.
        var sequence: UInt64
        var owner: Owner
        /// This field stands behind the owner, whose size is odd, so that an entry takes 32 bytes.
        var handle: Int32

        func expiresBefore(_ other: Entry) -> Bool {
            deadline == other.deadline ? sequence < other.sequence : deadline < other.deadline
        }
    }

    /// From how many entries on a queue counts as long. 4,096: 128 kB.
    static var longCount: Int { 4_096 }
    /// At how many it is short again.
    private static var shortCount: Int { 64 }

    private var heap: [Entry] = []
    /// Where in `heap` the entry of each handle is. Handles that are free hold the next free one
    /// instead, as −2 − its number; the last of them −1.
    private var positions: [Int32] = []
    private var firstFree: Int32 = -1
    private var nextSequence: UInt64 = 0
    private let capacity: Int
    /// Whether it was long since the entries last moved to memory of their own.
    private var wasLong = false

    /// An empty queue.
    /// - Parameter capacity: deadlines that never cost more than their own; beyond it the queue is
    ///   moved now and then, which takes 15 ms at a million.
    init(capacity: Int = 0) {
        self.capacity = capacity
        reserve()
    }

    private mutating func reserve() {
        heap.reserveCapacity(capacity)
        positions.reserveCapacity(capacity)
    }

    /// Bytes of one deadline: its entry in the heap, and where that is.
    static var entryBytes: Int { MemoryLayout<Entry>.stride + MemoryLayout<Int32>.stride }

    /// How many deadlines are scheduled.
    var count: Int { heap.count }

    /// The earliest deadline.
    var next: Instant? { heap.first?.deadline }

    /// Schedules a deadline. O(log n).
    mutating func schedule(_ owner: Owner, at deadline: Instant) -> DeadlineHandle {
        let handle = takeHandle()
        heap.append(
            Entry(deadline: deadline, sequence: takeSequence(), owner: owner, handle: handle))
        positions[Int(handle)] = Int32(heap.count - 1)
        if heap.count >= Self.longCount { wasLong = true }
        moveUp(from: heap.count - 1)
        return DeadlineHandle(index: handle)
    }

    private mutating func takeHandle() -> Int32 {
        let handle = firstFree
        guard handle >= 0 else {
            positions.append(-1)
            return Int32(positions.count - 1)
        }
        firstFree = -2 - positions[Int(handle)]
        return handle
    }

    /// Moves a deadline; among equal ones it is now the last. O(log n).
    /// - Precondition: the handle's deadline is scheduled.
    mutating func reschedule(_ handle: DeadlineHandle, at deadline: Instant) {
        let position = position(of: handle)
        heap[position].deadline = deadline
        heap[position].sequence = takeSequence()
        restore(at: position)
    }

    /// The deadline that a handle names.
    /// - Precondition: it is scheduled.
    func deadline(of handle: DeadlineHandle) -> Instant { heap[position(of: handle)].deadline }

    /// Takes a deadline away and returns its owner. O(log n).
    /// - Precondition: the handle's deadline is scheduled.
    @discardableResult
    mutating func cancel(_ handle: DeadlineHandle) -> Owner {
        let position = position(of: handle)
        return remove(at: position).owner
    }

    /// Takes the earliest deadline that is not after `now`, or returns nil.
    mutating func popExpired(at now: Instant) -> (owner: Owner, deadline: Instant)? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        let entry = remove(at: 0)
        return (entry.owner, entry.deadline)
    }

    /// Checks the invariant of this file. O(n); for tests and debug builds.
    func checkInvariants() {
        for position in heap.indices {
            precondition(positions[Int(heap[position].handle)] == Int32(position))
            let parent = (position - 1) / 2
            precondition(position == 0 || heap[parent].expiresBefore(heap[position]))
        }
        var (free, count) = (firstFree, 0)
        while free >= 0 {
            count += 1
            free = -2 - positions[Int(free)]
        }
        precondition(positions.count == heap.count + count)
    }

    private func position(of handle: DeadlineHandle) -> Int {
        let position = Int(positions[Int(handle.index)])
        precondition(position >= 0, "the deadline has expired or was cancelled")
        return position
    }

    private mutating func takeSequence() -> UInt64 {
        defer { nextSequence += 1 }
        return nextSequence
    }

    private mutating func remove(at position: Int) -> Entry {
        let last = heap.count - 1
        if position != last { swapEntries(position, last) }
        let entry = heap.removeLast()
        positions[Int(entry.handle)] = -2 - firstFree
        firstFree = entry.handle
        if position != last { restore(at: position) }
        if heap.count <= Self.shortCount { giveBack() }
        return entry
    }

    /// Moves the few entries that are left into smaller memory, once for each time that the queue
    /// was long. Handles do not change, so that the memory of their places is freed only with the
    /// last of them.
    private mutating func giveBack() {
        if heap.isEmpty, positions.count >= Self.longCount {
            (heap, positions, firstFree, wasLong) = ([], [], -1, false)
            reserve()
        } else if wasLong {
            var fresh: [Entry] = []
            fresh.reserveCapacity(capacity)
            fresh += heap
            (heap, wasLong) = (fresh, false)
        }
    }

    /// Entries that it has memory for.
    var roomCount: Int { heap.capacity }

    private mutating func restore(at position: Int) {
        moveUp(from: position)
        moveDown(from: position)
    }

    private mutating func moveUp(from start: Int) {
        var position = start
        while position > 0 {
            let parent = (position - 1) / 2
            guard heap[position].expiresBefore(heap[parent]) else { return }
            swapEntries(position, parent)
            position = parent
        }
    }

    private mutating func moveDown(from start: Int) {
        var position = start
        while true {
            let left = 2 * position + 1
            guard left < heap.count else { return }
            let right = left + 1
            let child =
                right < heap.count && heap[right].expiresBefore(heap[left]) ? right : left
            guard heap[child].expiresBefore(heap[position]) else { return }
            swapEntries(position, child)
            position = child
        }
    }

    private mutating func swapEntries(_ one: Int, _ other: Int) {
        heap.swapAt(one, other)
        positions[Int(heap[one].handle)] = Int32(one)
        positions[Int(heap[other].handle)] = Int32(other)
    }
}
