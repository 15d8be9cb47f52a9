// The time that a peer has to send something that it has begun: a fixed grace, and then as long as
// its bytes keep coming. A limit in time alone cuts off slow networks or lets slow attackers in; one in
// silence alone lets a byte a minute keep memory for ever (slowloris).

import Session

/// A pace that unfinished input must keep.
struct TransferPace {
    /// Time that every transfer has, however little has come.
    let grace: Duration
    /// Bytes that must come on average after the grace; 1….
    let bytesPerSecond: Int

    /// Time that this many bytes give their sender, beyond the grace.
    func credit(forBytes count: Int) -> Duration {
        // A gibibyte, the largest limit there is, times 10⁹ fits 64 bits.
        .nanoseconds(Int64(min(count, 1 << 32)) * 1_000_000_000 / Int64(bytesPerSecond))
    }
}
