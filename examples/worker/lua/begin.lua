-- A worker begins a job that XREADGROUP has given it. From here on its heartbeat counts.
--
-- KEYS   the stream, the job's `lease`, the job's `reply`; the same for all scripts of workers
-- ARGV   the group, the worker's name, the id of the job's entry, `job`, `lease_ms`; the same for all
-- Returns 1: work on it. 0: leave it, it is not wanted any more or not this worker's.
local mine = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
if mine.err or #mine == 0 then return 0 end
-- The server that asked is gone, or does not want the answer.
if redis.call('EXISTS', KEYS[3]) == 0 or redis.call('HGET', KEYS[2], 'worker') == '' then
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
    redis.call('XDEL', KEYS[1], ARGV[3])
    redis.call('DEL', KEYS[2])
    return 0
end
redis.call('HSET', KEYS[2], 'worker', ARGV[2], 'entry', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 1
