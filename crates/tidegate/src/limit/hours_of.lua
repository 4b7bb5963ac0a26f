-- hours_of: where a subject stands under several limits that are charged together, and the hours of a day. Changes
-- nothing.
--
-- KEYS  of an item after those of the limits: the hours
-- Own   per limit: extra
-- Answers ALL_KNOWN, each limit's answer, then the time (ms) and each hour that was noted, by its number, and what
--         was noted; or TRY_AGAIN and an answer
local rules = several({ sliding = sliding, calendar = calendar })
local keys = 1
for _, rule in ipairs(rules) do keys = keys + rule.stride end

return each(function(k, at)
  local parts, k_of = {}, k
  for i, rule in ipairs(rules) do
    local extra = tonumber(ARGV[at + i])
    local other = otherwise(rule, k_of, extra)
    if other and other[1] ~= HELD then return { TRY_AGAIN, other } end
    local part = { k = k_of, held = other, extra = extra }
    if not other then part.a, part.b = terms(rule, k_of) end
    parts[i], k_of = part, k_of + rule.stride
  end
  local answers, hours = standing(rules, parts), { now_ms }
  local stored = redis.call('HGETALL', KEYS[k_of])
  for i = 1, #stored, 2 do
    local hour = tonumber(stored[i])
    if is_kept(hour) then
      hours[#hours + 1] = hour
      hours[#hours + 1] = stored[i + 1]
    end
  end
  answers[#answers + 1] = hours
  return answers
end, keys, #rules)
