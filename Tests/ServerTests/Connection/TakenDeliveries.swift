// What agents' tasks have left at a gate, as tests look at it: an array of its own. The shard hands
// the gate one array to swap with, so that it allocates none.

@testable import Server

extension ShardGate {
    /// Takes what was delivered, in order.
    func takeDeliveries() -> [AgentDelivery] {
        var taken: [AgentDelivery] = []
        takeDeliveries(into: &taken)
        return taken
    }
}
