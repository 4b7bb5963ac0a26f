-- reset: forgets what a key has used; receipts and reservations from before are void.
-- What nodes hold by lease they may still spend: it is charged anew. What is of another type
-- than ours, or cannot be read, is forgotten: the key, what else there is of it, and the
-- limit's indices. An override that can be read stays.
--
-- KEYS  after the marker, the indices of the limit's pending reservations and of its
--       overrides; of an item after the limit's: records and index of reservations, leases,
--       override
-- Own   extra, the key
-- Answers 1, or 0 if there was no such key
local rule = rule_at(algorithm, 4)
local pending, overrides = KEYS[2], KEYS[3]
local AT_A_TIME = 1000

-- What `operation` answers; if it cannot read the `count` keys from KEYS[first] on, they go.
local function or_forget(first, count, operation, ...)
  local ok, answer = pcall(operation, ...)
  if ok then return answer end
  if not is_corrupt(answer) then error(answer, 0) end
  for i = first, first + count - 1 do redis.call('UNLINK', KEYS[i]) end
end

-- Voids the reservations whose records and index are KEYS[k] and the next, and takes them
-- out of the pending ones.
local function void(k, key)
  local ids = or_forget(k + 1, 1, redis.call, 'ZRANGE', KEYS[k + 1], 0, -1)
  if not ids then
    ids = {}
    local stored = or_forget(k, 1, redis.call, 'HGETALL', KEYS[k]) or {}
    for i = 1, #stored, 2 do ids[#ids + 1] = stored[i] end
  end
  local start = #key .. ':' .. key
  for from = 1, #ids, AT_A_TIME do
    local members = {}
    for i = from, math.min(from + AT_A_TIME - 1, #ids) do members[#members + 1] = start .. ids[i] end
    or_forget(2, 1, redis.call, 'ZREM', pending, unpack(members))
  end
  redis.call('UNLINK', KEYS[k], KEYS[k + 1])
end

-- Charges anew what the leases of KEYS[at] may still spend; those that cannot be read go.
local function hold_anew(k, at, extra)
  local stored = redis.call('HGETALL', KEYS[at])
  for i = 1, #stored, 2 do
    local ok, place, granted, spent, returned, ends = pcall(struct.unpack, '<ddddd', stored[i + 1])
    if not ok then
      redis.call('HDEL', KEYS[at], stored[i])
    elseif granted - spent - returned > 0 and ends > now_ms then
      rule.hold_anew(k, place, granted - spent - returned, extra)
    end
  end
end

return each(function(k, at)
  local extra, key = tonumber(ARGV[at + 1]), ARGV[at + 2]
  -- Reservations reach into the next window.
  local other = rule.elsewhere and rule.elsewhere(k, extra, 1)
  if other then return other end
  local known = or_forget(k, rule.keys, rule.reset, k, extra) or 1
  local after = k + rule.stride
  or_forget(2, 1, redis.call, 'ZCARD', pending)
  or_forget(3, 1, redis.call, 'ZCARD', overrides)
  void(after, key)
  if rule.hold_anew then or_forget(after + 2, 1, hold_anew, k, after + 2, extra) end
  if or_forget(after + 3, 1, redis.call, 'GET', KEYS[after + 3]) == nil then redis.call('ZREM', overrides, key) end
  return known
end, rule.stride + 4, 2, 2)
