-- mark: the marker of a partition, written at first use, read on every new
-- connection.
--
-- KEYS  the marker, a hash: partitions, hash (how subjects are spread), run (the
--       server that was last seen), lost_ms (when writes were last known to have
--       been lost, 0 for never), lost_run (the server that was found then), secret (of
--       the first partition: what all who share the store make checks with)
-- ARGV  now, partitions, hash, run ('' if unknown), known (1 if this process has
--       seen the marker before), known_run (the server it saw then), ttl_ms,
--       the secret to be if there is none ('' if this partition has none), 1 to write nothing
-- Returns partitions and hash as stored, 1 if this call found a loss (a marker that
--       was there is gone, or the server is not the one that was; each server is found
--       only once, whoever comes first), the secret, and how long ago writes were last
--       lost in ms, -1 for never
local stored = redis.call('HMGET', KEYS[1], 'partitions', 'hash', 'run', 'lost_ms', 'lost_run', 'secret')
local partitions, hash = stored[1] or ARGV[2], stored[2] or ARGV[3]
if partitions ~= ARGV[2] or hash ~= ARGV[3] then return { partitions, hash, 0, '', -1 } end
if ARGV[9] == '1' then return { partitions, hash, 0, stored[6] or ARGV[8], -1 } end

local run = ARGV[4]
local function another(seen) return seen and seen ~= '' and run ~= '' and seen ~= run end
-- A call may have found it gone before us, and stamped the loss.
local gone = not stored[1] and ARGV[5] == '1'
local lost_ms = tonumber(stored[4] or '0')
local lost = gone or ((another(stored[3]) or another(ARGV[6])) and stored[5] ~= run)
redis.call('HSET', KEYS[1], 'partitions', partitions, 'hash', hash)
if run ~= '' then redis.call('HSET', KEYS[1], 'run', run) end
if lost then
  if not gone or lost_ms == 0 then lost_ms = now() end
  redis.call('HSET', KEYS[1], 'lost_ms', int(lost_ms), 'lost_run', run)
elseif not stored[4] then
  redis.call('HSET', KEYS[1], 'lost_ms', '0')
end
local secret = stored[6] or ARGV[8]
if secret ~= '' and not stored[6] then redis.call('HSET', KEYS[1], 'secret', secret) end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
local since_loss_ms = lost_ms > 0 and math.max(0, now() - lost_ms) or -1
return { partitions, hash, lost and 1 or 0, secret, since_loss_ms }
