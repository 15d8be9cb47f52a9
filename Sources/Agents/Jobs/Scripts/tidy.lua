-- A server removes what others have left: jobs whose server is gone, and consumers without a job that
-- have not asked for one for long. Jobs of servers that live stay, whether they wait or are pending.
--
-- KEYS   the stream
-- ARGV   the group, how many of the oldest jobs are looked at, time in ms until a consumer is gone
-- Returns how many jobs were removed.
local removed = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])) do
    local job = {}
    for index = 1, #entry[2], 2 do job[entry[2][index]] = entry[2][index + 1] end
    if not job.reply or redis.call('EXISTS', job.reply) == 0 then
        redis.call('XACK', KEYS[1], ARGV[1], entry[1])
        redis.call('XDEL', KEYS[1], entry[1])
        if job.lease then redis.call('DEL', job.lease) end
        removed = removed + 1
    end
end
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
for _, fields in ipairs(consumers.err and {} or consumers) do
    local consumer = {}
    for index = 1, #fields, 2 do consumer[fields[index]] = fields[index + 1] end
    if consumer.pending == 0 and consumer.idle > tonumber(ARGV[3]) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    end
end
return removed
