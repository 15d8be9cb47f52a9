// The client's loudspeaker: reply audio is played as it comes, without a gap where there is enough
// of it. It knows how much of an item was heard, and what an open microphone hears of it.

import Codec
import YAML

/// Plays one reply after another.
struct Loudspeaker {
    /// How long audio lies in the client before it is played, in milliseconds.
    let latency: Int
    /// How often the server is told what was heard, in milliseconds; nil: never.
    let acknowledgementInterval: Int?
    /// Samples at `Sound.rate` that are played from a time on, in milliseconds.
    private var queue: [(start: Int, samples: [Int16])] = []
    private var end = 0
    /// The item that was played last, and what came of it.
    private(set) var itemID: String?
    private var received = 0

    init(_ description: YAMLValue?) {
        latency = description?["latency_ms"]?.integer ?? 0
        acknowledgementInterval = description?["acknowledges_every"]?.integer
    }

    /// Audio of an item has come.
    mutating func play(_ samples: [Int16], of itemID: String, at now: Int) {
        if itemID != self.itemID {
            self.itemID = itemID
            received = 0
        }
        let milliseconds = Sound.rate.milliseconds(ofSamples: samples.count)
        let start = max(end, now + latency)
        queue.append((start, samples))
        end = start + milliseconds
        received += milliseconds
    }

    /// What has been heard of the item, in milliseconds.
    func heard(at now: Int) -> Int { max(0, received - max(0, end - now)) }

    /// The user speaks: what was not played is dropped.
    mutating func stop(at now: Int) {
        received = heard(at: now)
        end = min(end, now)
        queue = queue.compactMap { start, samples in
            guard start < now else { return nil }
            let kept = Sound.rate.samples(inMilliseconds: now - start)
            return (start, Array(samples.prefix(kept)))
        }
    }

    /// What was played between two times, for the microphone.
    func played(from start: Int, to end: Int) -> [Float] {
        let origin = Sound.rate.samples(inMilliseconds: start)
        var heard = [Float](repeating: 0, count: Sound.rate.samples(inMilliseconds: end - start))
        for (place, samples) in queue {
            let offset = Sound.rate.samples(inMilliseconds: place) - origin
            for index in max(
                0, offset)..<max(
                    max(0, offset), min(heard.count, offset + samples.count))
            {
                heard[index] += Float(samples[index - offset]) / 32_768
            }
        }
        return heard
    }
}
