-- reset: forgets what a key has used; receipts and reservations from before are void.
-- What nodes hold by lease they may still spend: it is charged anew. A key that is of another
-- type, or cannot be read, is forgotten as a whole.
--
-- KEYS  of an item after the limit's: records and index of reservations, leases
-- Own   extra
-- Answers 1, or 0 if there was no such key
local rule = rule_at(algorithm, 4)

-- What `operation` answers; if it cannot read the `count` keys from KEYS[first] on, they go.
local function or_forget(first, count, operation, ...)
  local ok, answer = pcall(operation, ...)
  if ok then return answer end
  if not is_corrupt(answer) then error(answer, 0) end
  for i = first, first + count - 1 do redis.call('UNLINK', KEYS[i]) end
end

return each(function(k, at)
  local extra = tonumber(ARGV[at + 1])
  -- Reservations reach into the next window.
  local other = rule.elsewhere and rule.elsewhere(k, extra, 1)
  if other then return other end
  local known = or_forget(k, rule.keys, rule.reset, k, extra) or 1
  local after = k + rule.stride
  redis.call('UNLINK', KEYS[after], KEYS[after + 1])
  if rule.hold_anew then
    or_forget(after + 2, 1, function()
      for _, lease in ipairs(redis.call('HVALS', KEYS[after + 2])) do
        local place, granted, spent, returned, ends = struct.unpack('<ddddd', lease)
        local left = granted - spent - returned
        if left > 0 and ends > now_ms then rule.hold_anew(k, place, left, extra) end
      end
    end)
  end
  return known
end, rule.stride + 3, 1)
