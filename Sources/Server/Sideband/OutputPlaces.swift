// The places of a response's items, for sidebands of a client that gets reply audio as binary
// messages: those have no `output_index`, and a sideband's events have.
//
// Invariant: at most `maxItems` places are known, and none of a response that is over.

import Codec
import Session

/// Where the items of the response in flight stand in it.
struct OutputPlaces {
    /// Items that are remembered, the newest. 64: audio is made of one item after the other.
    static let maxItems = 64

    private var places: [(itemID: String, index: Int)] = []

    /// Heap bytes of it.
    var heldBytes: Int { places.reduce(places.heapBytes) { $0 + $1.itemID.heapBytes } }

    /// Takes note of an event of the session.
    mutating func note(_ event: ServerEvent) {
        switch event {
        case .responseOutputItemAdded(_, let index, let item):
            if places.count >= Self.maxItems { places.removeFirst() }
            places.append((item.id, index))
        case .responseDone: places.removeAll()
        default: break
        }
    }

    /// The event that a packet of binary audio stands for.
    func event(of packet: OutputAudioPacket) -> ServerEvent {
        let index = places.last { $0.itemID == packet.itemID }?.index ?? 0
        return .responseOutputAudioDelta(
            PartAddress(
                responseID: packet.responseID, itemID: packet.itemID, outputIndex: index,
                contentIndex: packet.contentIndex),
            audio: packet.payload)
    }
}
