// The operations of the store of sessions, each with its histogram.

/// An operation of the store, as metrics name it; `use` reports the use of quotas, `places` the
/// sessions of keys, `share` and `find` are operations on client secrets.
enum StoreOperation: String, CaseIterable {
    case write, claim, release, remove, heartbeat, use, places, share, find

    var histogram: ShardHistogram {
        switch self {
        case .write: .storeWrite
        case .claim: .storeClaim
        case .release: .storeRelease
        case .remove: .storeRemove
        case .heartbeat: .storeHeartbeat
        case .use: .storeUse
        case .places: .storePlaces
        case .share: .storeShare
        case .find: .storeFind
        }
    }
}
