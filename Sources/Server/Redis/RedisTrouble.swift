// Why a Redis server cannot be used, as the log, readiness and metrics name it. A server may answer
// and still execute no command. Then a new connection alone changes nothing.
//
// Not here: when a link finds out, which is RedisPipeline's matter.

import Codec

/// A cause for which a link does nothing for its owner.
enum RedisTrouble: String, CaseIterable {
    /// There is no connection, or no answer over it.
    case unreachable
    /// It is a replica, or follows a primary that is gone (`READONLY`, `MASTERDOWN`).
    case replica
    /// Its memory is full (`OOM`).
    case memory
    /// It cannot save its data and takes no more (`MISCONF`).
    case disk
    /// Too few replicas follow it (`NOREPLICAS`).
    case replicas
    /// It reads its data (`LOADING`).
    case loading
    /// It does not accept the user or the password (`WRONGPASS`, `NOAUTH`).
    case password
    /// The user may not use the keys or commands that its connection needs (`NOPERM`).
    case permission
    /// It is part of a Redis Cluster (`CLUSTERDOWN`, `MOVED`, `CROSSSLOT`).
    case cluster
    /// It refuses the connection for another reason.
    case refusal

    /// The trouble of a server that answers with this error.
    init(_ error: RedisError) {
        guard case .refused(let code, _) = error else {
            self = .unreachable
            return
        }
        self =
            switch code {
            case "READONLY", "MASTERDOWN": .replica
            case "OOM": .memory
            case "MISCONF": .disk
            case "NOREPLICAS": .replicas
            case "LOADING": .loading
            case "WRONGPASS", "NOAUTH": .password
            case "NOPERM": .permission
            case "CLUSTERDOWN", "MOVED", "CROSSSLOT": .cluster
            default: .refusal
            }
    }

    /// The operator's remedy, as a clause. Nil means that the reason says it.
    var advice: String? {
        switch self {
        case .unreachable, .refusal: nil
        case .replica: "name the primary in the URL"
        case .memory: "raise its maxmemory, or give it maxmemory-policy volatile-ttl"
        case .disk: "see its log: its disk is full, or it may not write there"
        case .replicas: "start its replicas, or lower its min-replicas-to-write"
        case .loading: "wait until it has read its data"
        case .permission: "allow the user ~parley:* +@read +@write +@scripting +@connection +time"
        case .cluster: "name a server that is no part of a Redis Cluster"
        case .password: "give the current user and password in the URL, and restart this server"
        }
    }
}
