-- mark: the marker of a partition, written at first use, read on every new
-- connection.
--
-- KEYS  the marker, a hash: partitions, hash (how subjects are spread), run (the
--       server that was last seen), lost_ms (when writes were last known to have
--       been lost, 0 for never), lost_run (the server that was found then), secret (of
--       the first partition: what all who share the store make checks with)
-- ARGV  now, partitions, hash, run ('' if unknown), known (1 if this process has
--       seen the marker before), known_run (the server it saw then), ttl_ms,
--       the secret to be if there is none ('' if this partition has none)
-- Returns partitions and hash as stored, and 1 if this call found a loss: a
--       marker that was there is gone, or the server is not the one that was.
--       Each server is found only once, whoever comes first. Last, the secret.
local stored = redis.call('HMGET', KEYS[1], 'partitions', 'hash', 'run', 'lost_ms', 'lost_run', 'secret')
local partitions, hash = stored[1] or ARGV[2], stored[2] or ARGV[3]
if partitions ~= ARGV[2] or hash ~= ARGV[3] then return { partitions, hash, 0, '' } end

local run = ARGV[4]
local function another(seen) return seen and seen ~= '' and run ~= '' and seen ~= run end
local gone = not stored[4] and ARGV[5] == '1'
local lost = gone or ((another(stored[3]) or another(ARGV[6])) and stored[5] ~= run)
redis.call('HSET', KEYS[1], 'partitions', partitions, 'hash', hash)
if run ~= '' then redis.call('HSET', KEYS[1], 'run', run) end
if lost then
  redis.call('HSET', KEYS[1], 'lost_ms', int(now()), 'lost_run', run)
elseif not stored[4] then
  redis.call('HSET', KEYS[1], 'lost_ms', '0')
end
local secret = stored[6] or ARGV[8]
if secret ~= '' and not stored[6] then redis.call('HSET', KEYS[1], 'secret', secret) end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return { partitions, hash, lost and 1 or 0, secret }
