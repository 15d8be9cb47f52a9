// The model of a census. It streams deltas at a fixed pace and writes the time of sending into each.
// From that time a reader measures how long a delta took through the server.

import Session
import Synchronization

/// The current tick of the shard's event loop.
final class ShardTick: Sendable {
    private let count = Atomic<Int>(0)

    /// Number of the tick.
    var number: Int { count.load(ordering: .relaxed) }

    func advance() { count.add(1, ordering: .relaxed) }
}

/// Streams deltas.
struct CensusModel: LanguageModel {
    let tick: ShardTick
    /// Deltas per reply.
    let deltas: Int
    /// Time between two deltas.
    let pace = Duration.milliseconds(20)

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        for _ in 0..<deltas {
            try await host.sleep(for: pace)
            try await reply(.text("@\(ThreadClock.nanoseconds) \(tick.number) "))
        }
    }
}

/// Measurements of the deltas that a sample of peers received.
struct DeltaDelays {
    /// Time from the model to the socket, in nanoseconds of the thread's CPU.
    private(set) var nanoseconds: [Int] = []
    /// Maximum ticks that one of them took.
    private(set) var ticks = 0
    /// Number of complete replies.
    private(set) var replies = 0

    /// Reads bytes that a peer received.
    mutating func read(_ bytes: UnsafeRawBufferPointer, tick: Int) {
        let now = ThreadClock.nanoseconds
        let text = Self.fields(in: bytes, after: UInt8(ascii: "@"))
        if let (sent, number) = text, !Self.isDone(bytes) {
            nanoseconds.append(now - sent)
            ticks = max(ticks, tick - number)
        }
        if Self.isDone(bytes) { replies += 1 }
    }

    /// A quantile of the delays, in microseconds.
    func quantile(_ share: Double) -> Double {
        guard !nanoseconds.isEmpty else { return 0 }
        let sorted = nanoseconds.sorted()
        let place = min(sorted.count - 1, Int(Double(sorted.count) * share))
        return Double(sorted[place]) / 1_000
    }

    private static func isDone(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let mark: StaticString = #""type":"response.done""#
        let count = mark.utf8CodeUnitCount
        guard bytes.count >= count else { return false }
        return (0...(bytes.count - count)).contains { start in
            bytes[start] == mark.utf8Start[0]
                && UnsafeRawBufferPointer(rebasing: bytes[start..<(start + count)])
                    .elementsEqual(UnsafeBufferPointer(start: mark.utf8Start, count: count))
        }
    }

    /// The two numbers after the first marker.
    private static func fields(
        in bytes: UnsafeRawBufferPointer, after mark: UInt8
    ) -> (Int, Int)? {
        guard let start = bytes.firstIndex(of: mark) else { return nil }
        var numbers = [0, 0]
        var place = 0
        for byte in bytes[(start + 1)...] {
            if byte == UInt8(ascii: " ") {
                place += 1
                if place == 2 { return (numbers[0], numbers[1]) }
            } else if (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
                numbers[place] = numbers[place] * 10 + Int(byte - UInt8(ascii: "0"))
            } else {
                return nil
            }
        }
        return nil
    }
}
