// Files that wait for a request each, and the pauses after failures. Pure: time is an argument.
//
// Invariant: a failure delays the next attempt of any of them, twice as long as the one before, up to
// a minute; others have their turn first. A success ends the pauses.

import Session

/// A queue of files. Each is in it once.
struct RetryQueue {
    private static let firstDelay = Duration.seconds(1)
    private static let longestDelay = Duration.seconds(60)

    private var waiting: [UploadedFile] = []
    private var members: Set<UploadedFile> = []
    private var delay = Duration.zero
    private var notBefore = Instant(nanoseconds: 0)

    /// The file whose turn it is.
    var first: UploadedFile? { waiting.first }
    /// How many wait.
    var count: Int { waiting.count }
    /// Whether the last attempt has failed.
    var isFailing: Bool { delay > .zero }
    /// When the next attempt is due, or nil where nothing waits.
    var due: Instant? { waiting.isEmpty ? nil : notBefore }

    /// Adds a file behind the others.
    mutating func add(_ file: UploadedFile) {
        if members.insert(file).inserted { waiting.append(file) }
    }

    /// Removes the first one, which is done.
    mutating func finishFirst(at now: Instant) {
        members.remove(waiting.removeFirst())
        delay = .zero
        notBefore = now
    }

    /// The attempt for the first one has failed: it goes behind the others.
    mutating func postponeFirst(at now: Instant) {
        waiting.append(waiting.removeFirst())
        delay = min(max(delay * 2, Self.firstDelay), Self.longestDelay)
        notBefore = now + delay
    }
}
