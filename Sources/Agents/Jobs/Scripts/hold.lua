-- A server cannot take more of a reply for a while (1), or can again (0). The worker learns of it
-- from its next word or heartbeat.
--
-- KEYS   the lease of the job
-- ARGV   1 or 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[1] == '1' then return redis.call('HSET', KEYS[1], 'held', '1') end
return redis.call('HDEL', KEYS[1], 'held')
