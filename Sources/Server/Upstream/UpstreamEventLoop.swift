// The event loop, as the HTTP client for upstream services needs it. The shard
// implements it on its own epoll; tests implement it on a loop of their own. No HTTP lives here.

import Session

/// The part of an event loop that `UpstreamHTTP` uses. All of it is called on the loop's thread.
///
/// The loop answers with `UpstreamHTTP.handleReady(fd:readable:writable:failed:)` and
/// `UpstreamHTTP.handleTimer()`. Readiness must be level-triggered: libcurl may leave bytes in a
/// socket and expects another report.
package protocol UpstreamEventLoop: AnyObject {
    /// Watches a socket, or changes the events it is watched for.
    func watch(fd: Int32, readable: Bool, writable: Bool)

    /// Ends the watch of a socket, which is closed soon after; its number may then be reused.
    func unwatch(fd: Int32)

    /// Sets the one timer to another instant; nil disarms it. It fires once, and at once
    /// when the instant has passed.
    func setUpstreamTimer(at instant: Instant?)

    /// The loop's time.
    var now: Instant { get }
}
