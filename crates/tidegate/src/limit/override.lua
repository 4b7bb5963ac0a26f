-- override: judges a key by another rate than the limit's for a while.
--
-- KEYS  the marker, the index of overrides by when they end, then the override of each
--       item, as rate.lua has it. The marker's field `o:<id>` is when the last override of the limit ends: until then takes
--       look for one.
-- ARGV  now, slack_ms, marker_ttl_ms, the limit's id
-- Own   for how many ms (0: ends it, '': only tells), the rate, the same in ticks, the key
-- Answers the ms it has left and its rate, or 0
local slack_ms, id = tonumber(ARGV[2]), 'o:' .. ARGV[4]
local now_ms, index = now(), KEYS[2]

return each(function(k, at)
  local key, for_ms = KEYS[k], tonumber(ARGV[at + 1])
  if for_ms == 0 then
    redis.call('ZREM', index, ARGV[at + 5])
    redis.call('UNLINK', key)
    return { 0, '' }
  elseif for_ms then
    local until_ms = now_ms + for_ms
    local text = table.concat({ int(until_ms), ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] }, ' ')
    -- First the index, which may be of another type: then nothing is set.
    index_drop_due(index, now_ms)
    index_put(index, until_ms, ARGV[at + 5], for_ms + slack_ms)
    redis.call('SET', key, text, 'PX', int(for_ms + slack_ms))
    if until_ms > (tonumber(redis.call('HGET', KEYS[1], id)) or 0) then
      redis.call('HSET', KEYS[1], id, int(until_ms))
      redis.call('PEXPIRE', KEYS[1], ARGV[3])
    end
  end
  local stored = redis.call('GET', key)
  local override = stored and read_override(stored)
  if not override or override.until_ms <= now_ms then return { 0, '' } end
  return { override.until_ms - now_ms, override.text }
end, 1, 5, 1)
