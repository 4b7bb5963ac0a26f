-- reservations: a page of the pending ones of a limit.
--
-- KEYS  the marker, then per item the index of pending reservations
-- ARGV  now
-- Own   the place to go on behind (time in ms and member, '' for the first), how many, what
--       the keys of reservations start with
-- Answers as listing.lua has it; what is listed is the cost
local now_ms = now()

return each(function(k, at)
  local prefix = ARGV[at + 4]
  return page(KEYS[k], now_ms, tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3]), function(member, ends_at_ms)
    -- The length of the key, the key, the id.
    local length, texts = string.match(member, '^(%d+):(.*)$')
    if not length then return end
    local key, id = string.sub(texts, 1, tonumber(length)), string.sub(texts, tonumber(length) + 1)
    -- A call on one that cannot be read says so; it keeps nobody from seeing the others.
    local is_hash, stored = pcall(redis.call, 'HGET', prefix .. key, id)
    if not is_hash or not stored then return end
    local is_record, cost, state, deadline = pcall(struct.unpack, '<ddd', stored)
    return is_record and state == PENDING and deadline == ends_at_ms and int(cost) or nil
  end)
end, 1, 4)
