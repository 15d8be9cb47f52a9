// The client's loudspeaker: it plays reply audio as it arrives, without a gap if enough has
// arrived. It knows how much of an item was played, and what an open microphone picks up.

import Codec
import YAML

/// Plays one reply after another.
struct Loudspeaker {
    /// Delay between the arrival of audio and its playback, in milliseconds.
    let latency: Int
    /// Interval of reports of the playback position to the server, in milliseconds; nil: none.
    let acknowledgementInterval: Int?
    /// Samples at `Sound.rate`, each run with its start time in milliseconds.
    private var queue: [(start: Int, samples: [Int16])] = []
    private var end = 0
    /// The item played last.
    private(set) var itemID: String?
    private var received = 0

    init(_ description: YAMLValue?) {
        latency = description?["latency_ms"]?.integer ?? 0
        acknowledgementInterval = description?["acknowledges_every"]?.integer
    }

    /// Queues audio of an item.
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

    /// How much of the item has been played, in milliseconds.
    func heard(at now: Int) -> Int { max(0, received - max(0, end - now)) }

    /// Stops for the user's speech: audio that was not played is dropped.
    mutating func stop(at now: Int) {
        received = heard(at: now)
        end = min(end, now)
        queue = queue.compactMap { start, samples in
            guard start < now else { return nil }
            let kept = Sound.rate.samples(inMilliseconds: now - start)
            return (start, Array(samples.prefix(kept)))
        }
    }

    /// The samples played between two times, for the microphone.
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
