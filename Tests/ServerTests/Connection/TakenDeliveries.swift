// The deliveries of agents' tasks at a gate, in an array for tests. The shard hands
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
