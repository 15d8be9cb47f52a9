// Numbered timers for loops with tens of thousands of them: a wheel of lists (Varghese and Lauck,
// 1987). Setting and cancelling cost a few writes each, whatever else is set. No clock here: the
// time is an argument.
//
// Invariant: a timer is in the list of the slot of its tick, and in no other; `ticks[timer]` is
// `unset` exactly for timers that are in none.

/// Timers that fire once, rounded up to a quarter of a millisecond.
final class TimerWheel {
    /// How fine the wheel is. Finer than what a loaded scheduler keeps.
    static let tickNanoseconds: Int64 = 250_000
    /// Two seconds around; what lies further ahead stays in its slot for another round.
    private static let slots = 8_192
    private static let unset = Int64.max

    private var heads = [Int32](repeating: -1, count: slots)
    private var occupied = [UInt64](repeating: 0, count: slots / 64)
    private var following: [Int32] = []
    private var preceding: [Int32] = []
    private var ticks: [Int64] = []
    /// All ticks up to this one have fired.
    private var done: Int64
    private var fired: [Int] = []

    /// Creates a wheel without timers.
    /// - Parameter now: nanoseconds on the clock that all other times are on.
    init(now: Int64) { done = now / Self.tickNanoseconds }

    /// When a timer that is asked for at `time` fires, in nanoseconds: a schedule that counts
    /// delays from here does not count the rounding.
    static func rounded(_ time: Int64) -> Int64 {
        (time + tickNanoseconds - 1) / tickNanoseconds * tickNanoseconds
    }

    /// Sets a timer, or moves it.
    /// - Parameter time: nanoseconds; what has passed fires at the next tick.
    func set(_ timer: Int, at time: Int64) {
        cancel(timer)
        while ticks.count <= timer {
            ticks.append(Self.unset)
            following.append(-1)
            preceding.append(-1)
        }
        let tick = max(Self.rounded(time) / Self.tickNanoseconds, done + 1)
        let slot = Int(tick % Int64(Self.slots))
        let head = heads[slot]
        ticks[timer] = tick
        following[timer] = head
        preceding[timer] = -1
        if head >= 0 { preceding[Int(head)] = Int32(timer) }
        heads[slot] = Int32(timer)
        occupied[slot / 64] |= 1 << UInt64(slot % 64)
    }

    /// Forgets a timer, set or not.
    func cancel(_ timer: Int) {
        guard timer < ticks.count, ticks[timer] != Self.unset else { return }
        let slot = Int(ticks[timer] % Int64(Self.slots))
        let (before, after) = (preceding[timer], following[timer])
        if after >= 0 { preceding[Int(after)] = before }
        if before >= 0 {
            following[Int(before)] = after
        } else {
            heads[slot] = after
            if after < 0 { occupied[slot / 64] &= ~(1 << UInt64(slot % 64)) }
        }
        ticks[timer] = Self.unset
    }

    /// Takes the timers that are due. Those of one tick come in no particular order.
    func expire(at now: Int64) -> [Int] {
        let last = now / Self.tickNanoseconds
        guard last > done else { return [] }
        fired.removeAll(keepingCapacity: true)
        // After a pause of a whole round every slot is looked at once.
        let first = max(done + 1, last - Int64(Self.slots) + 1)
        for tick in first...last {
            let slot = Int(tick % Int64(Self.slots))
            guard occupied[slot / 64] & 1 << UInt64(slot % 64) != 0 else { continue }
            var timer = heads[slot]
            while timer >= 0 {
                if ticks[Int(timer)] <= last { fired.append(Int(timer)) }
                timer = following[Int(timer)]
            }
        }
        done = last
        for timer in fired { cancel(timer) }
        return fired
    }

    /// When to look again, in nanoseconds: never after the next timer, and at most a round ahead.
    var nextLook: Int64 {
        let start = done + 1
        var offset = 0
        while offset < Self.slots {
            let slot = Int((start + Int64(offset)) % Int64(Self.slots))
            let word = occupied[slot / 64] >> UInt64(slot % 64)
            if word != 0 {
                offset += word.trailingZeroBitCount
                break
            }
            offset += 64 - slot % 64
        }
        return (start + Int64(min(offset, Self.slots - 1))) * Self.tickNanoseconds
    }
}
