-- A server looks after its jobs, once a second: its reply stream lives on and is trimmed to what is
-- not read yet, and it learns which workers have died.
--
-- KEYS   the stream, the server's reply stream, then the leases of its jobs
-- ARGV   the group, lifetime of the reply stream in ms, the last reply that was read, time in ms
--        after which a job without a heartbeat is lost, then the entries of the jobs
-- Returns the last id of the reply stream, then for each job: 'running'; 'waiting' for a worker;
-- 'taken' a moment ago; 'lost': its worker has died; 'gone': the stream does not have it, because it
-- has ended, or because Redis has lost it.
if redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('XDEL', KEYS[2], redis.call('XADD', KEYS[2], '0-1', 'job', ''))
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('XTRIM', KEYS[2], 'MINID', '~', ARGV[3])
local info = redis.call('XINFO', 'STREAM', KEYS[2])
local answer = {}
for index = 1, #info, 2 do
    if info[index] == 'last-generated-id' then answer[1] = info[index + 1] end
end
for index = 3, #KEYS do
    local entry = ARGV[index + 2]
    local state = 'running'
    if redis.call('EXISTS', KEYS[index]) == 0 then
        state = 'gone'
        if #redis.call('XRANGE', KEYS[1], entry, entry) == 1 then
            local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry, entry, 1)[1]
            state = not pending and 'waiting'
                or pending[3] < tonumber(ARGV[4]) and 'taken' or 'lost'
        end
    end
    answer[index - 1] = state
end
return answer
