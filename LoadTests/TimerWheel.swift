// Tens of thousands of numbered timers in a wheel of lists (Varghese and Lauck, 1987). Setting and
// cancelling cost a few writes each, however many are set. No clock is read here: the time is an
// argument.
//
// Invariant: a set timer is in exactly one list, that of its tick's slot. For all other timers
// `ticks[timer]` is `unset`.

/// Timers that fire once, rounded up to a quarter of a millisecond.
final class TimerWheel {
    /// The wheel's resolution, which is finer than the delays of a loaded scheduler.
    static let tickNanoseconds: Int64 = 250_000
    /// Slots of one round, which takes two seconds. A timer further ahead stays in its slot for
    /// another round.
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

    /// The time at which a timer set to `time` fires, in nanoseconds. Delays that are counted from
    /// it do not include the rounding.
    static func rounded(_ time: Int64) -> Int64 {
        (time + tickNanoseconds - 1) / tickNanoseconds * tickNanoseconds
    }

    /// Sets a timer, or moves it.
    /// - Parameter time: in nanoseconds. A time in the past fires at the next tick.
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

    /// Cancels a timer, if it is set.
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

    /// Removes and returns the timers that are due. Those of one tick have no particular order.
    func expire(at now: Int64) -> [Int] {
        let last = now / Self.tickNanoseconds
        guard last > done else { return [] }
        fired.removeAll(keepingCapacity: true)
        // After a pause of a whole round or more, every slot is visited once.
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

    /// The time of the next call of `expire`, in nanoseconds: never after the next timer, and at
    /// most a round ahead.
    var nextCheck: Int64 {
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
