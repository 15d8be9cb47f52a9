// Measurements of the last second and a half for Prosody, made window by window during speech. They
// take a third of the samples' memory.
//
// Invariant: the last windows up to `end` are kept, without gaps, at most `maxWindows`.

/// Levels and slow samples of the newest windows.
struct ProsodyTrack {
    /// Samples of one energy: 2 ms, what 10 ms hops and 32 ms windows have in common.
    private static let unit = 32
    private static let windowSamples = VoiceActivityDetector.windowSamples
    /// The longest stretch that Prosody measures and the silence after it, rounded up to whole
    /// windows.
    private static let maxWindows =
        (Prosody.maxSamples + Prosody.silenceSamples) / windowSamples + 2
    private static let unitsPerWindow = windowSamples / unit
    private static let slowPerWindow = windowSamples / PitchTrack.decimation

    /// Rings, empty until the first window: the energy of each unit, and the means of four samples.
    private var energies: [Float] = []
    private var slow: [Int16] = []
    private var windows = 0
    /// Timeline position just past the last window.
    private var end = 0
    /// Timeline position of the oldest window.
    var start: Int { end - windows * Self.windowSamples }
    /// Bytes on the heap.
    var heldBytes: Int { energies.heapBytes + slow.heapBytes }

    /// Takes the window at a timeline position.
    mutating func append(_ window: UnsafeBufferPointer<Int16>, at position: Int) {
        precondition(window.count == Self.windowSamples)
        if energies.isEmpty {
            energies = Array(repeating: 0, count: Self.maxWindows * Self.unitsPerWindow)
            slow = Array(repeating: 0, count: Self.maxWindows * Self.slowPerWindow)
        }
        if position != end { windows = 0 }
        end = position + Self.windowSamples
        windows = min(windows + 1, Self.maxWindows)
        let units = ring(position, Self.unit, energies.count)
        for index in 0..<Self.unitsPerWindow {
            var energy: Float = 0
            for sample in window[index * Self.unit..<(index + 1) * Self.unit] {
                energy += Float(sample) * Float(sample)
            }
            energies[(units + index) % energies.count] = energy
        }
        let means = ring(position, PitchTrack.decimation, slow.count)
        for index in 0..<Self.slowPerWindow {
            let first = index * PitchTrack.decimation
            let sum = window[first..<first + PitchTrack.decimation].reduce(Int32(0)) {
                $0 + Int32($1)
            }
            slow[(means + index) % slow.count] = Int16(sum >> 2)
        }
    }

    /// The index in a ring of this many entries at which the entry of a timeline position is.
    private func ring(_ position: Int, _ entrySamples: Int, _ count: Int) -> Int {
        // Counted back from the end, because windows may lie anywhere on the timeline.
        position / entrySamples % count
    }

    /// Forgets everything, memory included.
    mutating func removeAll() { self = ProsodyTrack() }

    /// Judges speech from a timeline position that is kept to another; both are ends of windows.
    func measure(from position: Int, speechEnd: Int) -> Prosody? {
        let first = end - (end - position) / Self.unit * Self.unit
        guard first >= start, first < speechEnd else { return nil }
        return Prosody.measure(
            sampleCount: end - first, silence: end - speechEnd,
            levels: { levels in
                let units = ring(first, Self.unit, energies.count)
                let perHop = Prosody.hop / Self.unit
                for hop in levels.indices {
                    levels[hop] = (0..<perHop).reduce(0) {
                        $0 + energies[(units + hop * perHop + $1) % energies.count]
                    }
                }
            },
            slow: { room in
                let means = ring(first, PitchTrack.decimation, slow.count)
                for index in room.indices {
                    room[index] = Float(slow[(means + index) % slow.count])
                }
            })
    }
}
