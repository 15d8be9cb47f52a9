-- A server asks for a turn: the job goes to the end of the stream, unless the stream is full.
--
-- KEYS   the stream, the server's reply stream
-- ARGV   the group, most jobs in the stream, lifetime of the reply stream in ms, time for the turn
--        in ms, then the names and values of the job's fields
-- Returns the id of the job's entry; nil where the stream is full.
redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[2]) then return false end
if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('XDEL', KEYS[2], redis.call('XADD', KEYS[2], '0-1', 'job', ''))
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[4]
return redis.call(
    'XADD', KEYS[1], '*', 'deadline', string.format('%.0f', deadline), unpack(ARGV, 5))
