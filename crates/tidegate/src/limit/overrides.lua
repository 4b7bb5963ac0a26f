-- overrides: a page of those of a limit.
--
-- KEYS  the marker, then per item the index of overrides
-- ARGV  now
-- Own   the place to go on behind (time in ms and key, '' for the first), how many, what
--       the keys of overrides start with
-- Answers as listing.lua has it; what is listed is the rate
local now_ms = now()

return each(function(k, at)
  local prefix = ARGV[at + 4]
  return page(KEYS[k], now_ms, tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3]), function(key, ends_at_ms)
    local stored = redis.call('GET', prefix .. key)
    local override = stored and read_override(stored)
    return override and override.until_ms == ends_at_ms and override.text or nil
  end)
end, 1, 4)
