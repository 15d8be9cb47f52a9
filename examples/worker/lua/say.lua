-- A worker says a piece of its answer, which also is a heartbeat.
--
-- KEYS   as of begin.lua
-- ARGV   as of begin.lua, then the number of the piece (1, 2, 3 …) and the names and values of its
--        fields
-- Returns 1: go on. 2: say nothing more until a heartbeat returns 1. 0: stop.
local lease = redis.call('HMGET', KEYS[2], 'worker', 'said', 'held')
if lease[1] ~= ARGV[2] then return 0 end
local bytes = 0
for index = 7, #ARGV do bytes = bytes + #ARGV[index] end
if bytes > 65536 then return redis.error_reply('ERR a piece may have 64 KiB') end
local said = tonumber(lease[2] or 0)
local number = tonumber(ARGV[6])
if number > said + 1 then return redis.error_reply('ERR piece ' .. said + 1 .. ' is missing') end
-- A piece that was said already comes from a client that repeats a call without an answer.
if number == said + 1 then
    local fields = { 'job', ARGV[4], 'n', ARGV[6], unpack(ARGV, 7) }
    if not redis.call('XADD', KEYS[3], 'NOMKSTREAM', '*', unpack(fields)) then
        -- The server that asked is gone: its job is removed.
        redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
        redis.call('XDEL', KEYS[1], ARGV[3])
        redis.call('DEL', KEYS[2])
        return 0
    end
    redis.call('HSET', KEYS[2], 'said', number)
end
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return lease[3] and 2 or 1
