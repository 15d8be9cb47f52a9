-- A server wants no more of a turn: the user has interrupted, or a time limit is over. A job that
-- waits is removed. A worker that has it learns of it from its next word or heartbeat.
--
-- KEYS   the stream, the lease of the job
-- ARGV   the group, the job's entry or '' where the server does not know whether there is one,
--        time in ms for which a job without an entry is refused to workers
local entry = ARGV[2]
if entry == '' then entry = redis.call('HGET', KEYS[2], 'entry') end
if not entry then
    redis.call('HSET', KEYS[2], 'worker', '')
    return redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
redis.call('XACK', KEYS[1], ARGV[1], entry)
redis.call('DEL', KEYS[2])
return redis.call('XDEL', KEYS[1], entry)
