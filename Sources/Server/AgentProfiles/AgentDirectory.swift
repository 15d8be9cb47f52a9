// The agents of a server, over all shards. A reload replaces all of them; sessions keep the agent
// that they began with.

import Session
import Synchronization

/// Finds agents by their names. Any thread.
package final class AgentDirectory: Sendable {
    private let profiles: Mutex<AgentProfiles>

    /// Creates one.
    package init(_ profiles: AgentProfiles = AgentProfiles()) { self.profiles = Mutex(profiles) }

    /// The agents as they are now.
    var current: AgentProfiles { profiles.withLock { $0 } }

    /// Replaces all of them.
    func replace(_ profiles: AgentProfiles) { self.profiles.withLock { $0 = profiles } }
}
