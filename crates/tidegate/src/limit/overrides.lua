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
    -- A call on one that cannot be read says so; it keeps nobody from seeing the others.
    local is_text, stored = pcall(redis.call, 'GET', prefix .. key)
    local override = is_text and stored and read_override(stored)
    return override and override.until_ms == ends_at_ms and override.text or nil
  end)
end, 1, 4)
