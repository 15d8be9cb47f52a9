-- A server takes a job from a worker that has died, and gives it to the group again, as a new entry.
-- A worker that is alive keeps it, however long it has had it: only its heartbeat counts. A worker may
-- wake and answer just before; then the entry is missing, and the job is not run again.
--
-- KEYS   the stream, the lease of the job
-- ARGV   the group, the job's entry, 1 where Redis had lost that entry, else 0, time for the turn in ms,
--        then the names and values of the new job's fields
-- Returns the id of the new entry; nil where the worker is alive, or has answered.
if redis.call('EXISTS', KEYS[2]) == 1 then return false end
if ARGV[3] == '0' and #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then return false end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
local time = redis.call('TIME')
local deadline = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[4]
return redis.call(
    'XADD', KEYS[1], '*', 'deadline', string.format('%.0f', deadline), unpack(ARGV, 5))
