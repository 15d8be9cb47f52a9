-- A worker's heartbeat: it goes on with the job.
--
-- KEYS   as of begin.lua
-- ARGV   as of begin.lua
-- Returns 1: go on. 2: say nothing more until a heartbeat returns 1. 0: stop.
local lease = redis.call('HMGET', KEYS[2], 'worker', 'held')
if lease[1] ~= ARGV[2] then return 0 end
if redis.call('EXISTS', KEYS[3]) == 0 then
    -- The server that asked is gone: its job is removed.
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
    redis.call('XDEL', KEYS[1], ARGV[3])
    redis.call('DEL', KEYS[2])
    return 0
end
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return lease[2] and 2 or 1
