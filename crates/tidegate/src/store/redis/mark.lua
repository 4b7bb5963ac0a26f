-- mark: the marker of a partition, written at first use, read at every connect.
--
-- KEYS  the marker, a hash: partitions, hash (how subjects are spread), run (the
--       server that was last seen), lost_ms (when it was last known to have lost
--       writes, 0 for never)
-- ARGV  now, partitions, hash, run ('' if unknown), known (1 if this process has
--       seen the marker before), ttl_ms
-- Returns partitions and hash as stored, and 1 if this call found a loss: a
--       marker that was there is gone, or the server is not the one that was.
local stored = redis.call('HMGET', KEYS[1], 'partitions', 'hash', 'run')
local partitions, hash, run = stored[1] or ARGV[2], stored[2] or ARGV[3], stored[3]
if partitions ~= ARGV[2] or hash ~= ARGV[3] then return { partitions, hash, 0 } end

local gone = not stored[1] and ARGV[5] == '1'
local other = run and run ~= '' and ARGV[4] ~= '' and run ~= ARGV[4]
local lost = gone or other
redis.call('HSET', KEYS[1], 'partitions', partitions, 'hash', hash)
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'run', ARGV[4]) end
if lost then
  redis.call('HSET', KEYS[1], 'lost_ms', int(now()))
else
  redis.call('HSETNX', KEYS[1], 'lost_ms', '0')
end
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return { partitions, hash, lost and 1 or 0 }
