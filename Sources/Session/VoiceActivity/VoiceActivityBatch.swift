// Windows of several streams that go through the largest layer of the voice activity network together.
//
// The weights of that layer take 512 KiB, more than the second-level cache of most processors holds
// beside anything else. One window alone waits for them; four windows read them once. The layers before
// it are computed window by window, when a window is put in: their weights serve four frames already.
//
//   empty ── `add` ──▶ filling ── `compute` ──▶ computed ── `removeAll` ──▶ empty
//
// A place is taken once, before or after `compute`. Before it, the window is computed alone, with the
// same result.

import CDense

/// Windows that wait to be computed; shared by the sessions of a shard and confined to its thread.
public final class VoiceActivityBatch {
    /// The most windows: as many as a layer serves with one pass over its weights.
    static let capacity = Int(DENSE_FRAMES)
    /// Inputs of the layer for one window: features, then the hidden state.
    private static let inputs = 2 * SileroShape.hidden
    /// Its outputs: the four gates of the LSTM.
    private static let outputs = 4 * SileroShape.hidden

    /// Whether windows may be put in: while the event loop reads, and computes the batch afterwards.
    public private(set) var isOpen = false
    /// Windows in it.
    public private(set) var count = 0
    /// Whether there is room for no other window.
    public var isFull: Bool { count == Self.capacity }

    private let model: VoiceActivityModel
    private let recurrent: UnsafeMutablePointer<Float>
    private let gates: UnsafeMutablePointer<Float>
    private var energies: [WindowEnergy] = []
    private var isComputed = false

    init(model: VoiceActivityModel) {
        self.model = model
        recurrent = .allocate(capacity: Self.capacity * Self.inputs)
        gates = .allocate(capacity: Self.capacity * Self.outputs)
        recurrent.initialize(repeating: 0, count: Self.capacity * Self.inputs)
        gates.initialize(repeating: 0, count: Self.capacity * Self.outputs)
        energies.reserveCapacity(Self.capacity)
    }

    deinit {
        recurrent.deallocate()
        gates.deallocate()
    }

    /// Windows may be put in from now on.
    public func open() { isOpen = true }

    /// Windows are computed alone from now on.
    /// - Precondition: it is empty.
    public func close() {
        precondition(count == 0)
        isOpen = false
    }

    /// Computes all windows in it.
    public func compute() {
        model.gates.apply(
            recurrent, frames: count, stride: Self.inputs, rectified: false, into: gates)
        isComputed = true
    }

    /// Empties it, after every window has been taken or is not wanted any more.
    public func removeAll() {
        count = 0
        energies.removeAll(keepingCapacity: true)
        isComputed = false
    }

    /// Puts a window in and computes the layers before the largest.
    /// - Returns: its place.
    /// - Precondition: the batch is open, not full and not computed.
    func add(
        _ window: UnsafeBufferPointer<Int16>, energy: WindowEnergy, state: StreamState
    ) -> Int {
        precondition(isOpen && !isFull && !isComputed)
        defer { count += 1 }
        energies.append(energy)
        model.prepare(window, state: state, into: recurrent + count * Self.inputs)
        return count
    }

    /// Completes a window's step.
    /// - Parameter state: the state of the window's stream, which is updated.
    /// - Returns: the probability that the window holds speech, and its energy.
    func take(_ place: Int, state: StreamState) -> (probability: Float, energy: WindowEnergy) {
        precondition(place < count)
        let gates = gates + place * Self.outputs
        if !isComputed {
            model.gates.apply(recurrent + place * Self.inputs, rectified: false, into: gates)
        }
        return (model.complete(gates, state: state), energies[place])
    }
}
