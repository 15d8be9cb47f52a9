// The operations of RedisSessionStore as Lua scripts, one a operation, so that each is one step of
// the Redis server. All rules of ownership live here; RedisSessionStore only passes arguments.
//
//   parley:{ID}        hash of a session: owner (a node, or empty), fence, and its fields
//   parley:node:NODE   the node's NodeRecord; exists while the node is alive
//   parley:inbox:NODE  list of messages for the node
//   parley:nodes       sorted set of the nodes that are alive, by the time of their last heartbeat
//   parley:node-secret the secret that the nodes share; the first of them makes it
//   parley:quota:…     a bucket that servers share; QuotaReports has its script
//   parley:places:…    hash of a principal's sessions by node; PlaceReports has its script
//   parley:secret:…    a client secret by its hash; RedisSharedSecrets needs no script
//
// The claim derives the keys of the owner from the record, and the heartbeat those of the other nodes
// from their set. One Redis server allows this, a Redis Cluster does not.

import Codec

/// The scripts of the store.
enum StoreScripts {
    /// The key of a session's record.
    static func record(of sessionID: String) -> String { "parley:{\(sessionID)}" }
    /// The key that exists while a node is alive.
    static func liveness(of node: String) -> String { "parley:node:\(node)" }
    /// The key of the messages for a node.
    static func inbox(of node: String) -> String { "parley:inbox:\(node)" }

    /// Keys: the record. Arguments: fence, node, whether it is whole (1 or 0), lifetime in
    /// milliseconds, the number of removed fields and their names, then names and values.
    static let write = RedisScript(
        """
        local stored = redis.call('HMGET', KEYS[1], 'fence', 'owner')
        local fence, whole = tonumber(ARGV[1]), ARGV[3] == '1'
        local current = stored[1] and tonumber(stored[1]) or 0
        if current > fence then return 'fenced' end
        if current == fence and stored[2] ~= ARGV[2] then return 'fenced' end
        if current ~= fence and not whole then return 'missing' end
        if whole then
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'fence', ARGV[1])
        end
        local first = 6 + tonumber(ARGV[5])
        for i = 6, first - 1 do redis.call('HDEL', KEYS[1], ARGV[i]) end
        for i = first, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        return 'written'
        """)

    /// Keys: the record. Arguments: proof, node, whether it is forced (1 or 0), lifetime in
    /// milliseconds, the session's id, the most bytes of a record.
    static let claim = RedisScript(
        """
        local fields = redis.call('HGETALL', KEYS[1])
        local owner, fence, known, bytes = '', 0, false, 0
        for i = 1, #fields, 2 do
            local name, value = fields[i], fields[i + 1]
            bytes = bytes + #name + #value
            if name == 'owner' then owner = value
            elseif name == 'fence' then fence = tonumber(value) or 0
            elseif name == 'proof' or name == 'proof.old' then
                known = known or value == ARGV[1]
            end
        end
        if not known or bytes > tonumber(ARGV[6]) then return {'missing'} end
        local other = owner ~= '' and owner ~= ARGV[2]
        if other and ARGV[3] == '0'
            and redis.call('EXISTS', 'parley:node:' .. owner) == 1 then
            return {'held', owner}
        end
        local next = string.format('%.0f', fence + 1)
        redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'fence', next)
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        if other then
            -- An owner that does not seem to be alive may be cut off, and come back.
            local inbox = 'parley:inbox:' .. owner
            redis.call('RPUSH', inbox, 'fenced ' .. next .. ' ' .. ARGV[5])
            redis.call('LTRIM', inbox, -10000, -1)
            redis.call('PEXPIRE', inbox, 60000)
        end
        return {'claimed', next, fields}
        """)

    /// Keys: the record. Arguments: fence, node, lifetime in milliseconds.
    static let release = RedisScript(
        """
        local stored = redis.call('HMGET', KEYS[1], 'fence', 'owner')
        if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 'fenced' end
        redis.call('HSET', KEYS[1], 'owner', '')
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        return 'written'
        """)

    /// Keys: the record. Arguments: fence, node.
    static let remove = RedisScript(
        """
        local stored = redis.call('HMGET', KEYS[1], 'fence', 'owner')
        if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 'fenced' end
        redis.call('DEL', KEYS[1])
        return 'written'
        """)

    /// The key of the nodes that are alive.
    static let nodes = "parley:nodes"
    /// The key of the secret that they share.
    static let nodeSecret = "parley:node-secret"

    /// Keys: liveness and inbox of the node, all nodes, their secret. Arguments: the node's record,
    /// its lifetime in milliseconds, the most messages, the node, a new secret. Answers with the
    /// messages, the secret, and the records of all nodes that are alive.
    static let heartbeat = RedisScript(
        """
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        local messages = redis.call('LRANGE', KEYS[2], 0, ARGV[3] - 1)
        local time = redis.call('TIME')
        local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
        redis.call('ZADD', KEYS[3], now, ARGV[4])
        redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - tonumber(ARGV[2]))
        redis.call('SET', KEYS[4], ARGV[5], 'NX')
        local records = {}
        for _, node in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
            local record = redis.call('GET', 'parley:node:' .. node)
            if record then records[#records + 1] = record end
        end
        local secret = redis.call('GET', KEYS[4])
        -- Last: where anything above fails, the messages stay.
        redis.call('LTRIM', KEYS[2], #messages, -1)
        return {messages, secret, records}
        """)
}
