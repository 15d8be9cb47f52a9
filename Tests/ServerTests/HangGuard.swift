// How long tests that need the kernel wait for an event. No test depends on the machine's speed:
// each waits for events, and this limit only ends a test that would wait for ever.

/// The limit of every wait on the real clock.
enum HangGuard {
    /// 120 s: no event here takes as long, also on a machine that is busy with other work.
    static let duration: Duration = .seconds(120)
    /// The same for `poll` and `epoll_wait`.
    static let milliseconds: Int32 = 120_000
}
