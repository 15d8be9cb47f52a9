-- A server puts a job whose worker has died among the dead letters: it is not run again.
--
-- KEYS   the stream, the lease of the job, the dead letters
-- ARGV   the group, the job's entry, 1 where Redis had lost that entry, else 0, why, most dead letters,
--        their lifetime in ms
-- Returns 1; 0 where the worker is alive, or has answered.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if ARGV[3] == '0' and not entry then return 0 end
if entry then
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)[1]
    redis.call(
        'XADD', KEYS[3], 'MAXLEN', '~', ARGV[5], '*', 'reason', ARGV[4],
        'worker', pending and pending[2] or '', unpack(entry[2]))
    redis.call('PEXPIRE', KEYS[3], ARGV[6])
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return 1
