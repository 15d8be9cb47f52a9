// How long a peer may take to send something that it has begun: a while, and then as long as its
// bytes keep coming. A limit in time alone cuts off slow networks or lets slow attackers in; one in
// silence alone lets a byte a minute hold memory for ever (slowloris).

import Session

/// A pace that unfinished input must keep.
struct TransferPace {
    /// Time that everybody has.
    let grace: Duration
    /// What must have come beyond it, on average; 1….
    let bytesPerSecond: Int

    /// Time that this many bytes give their sender, beyond the grace.
    func credit(forBytes count: Int) -> Duration {
        // A gibibyte, the largest limit there is, times 10⁹ fits 64 bits.
        .nanoseconds(Int64(min(count, 1 << 32)) * 1_000_000_000 / Int64(bytesPerSecond))
    }
}
