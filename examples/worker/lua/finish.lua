-- A worker says the last piece of its answer: the job is over, and its entry is removed.
--
-- KEYS   as of begin.lua
-- ARGV   as of say.lua
-- Returns 1. 0: the job is not this worker's any more.
local lease = redis.call('HMGET', KEYS[2], 'worker', 'said')
if lease[1] ~= ARGV[2] then return 0 end
local bytes = 0
for index = 7, #ARGV do bytes = bytes + #ARGV[index] end
if bytes > 65536 then return redis.error_reply('ERR a piece may have 64 KiB') end
local said = tonumber(lease[2] or 0)
if tonumber(ARGV[6]) ~= said + 1 then
    return redis.error_reply('ERR the last piece is ' .. said + 1)
end
local fields = { 'job', ARGV[4], 'n', ARGV[6], unpack(ARGV, 7) }
redis.call('XADD', KEYS[3], 'NOMKSTREAM', '*', unpack(fields))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
redis.call('DEL', KEYS[2])
return 1
