-- hours_of: where a subject stands under several limits that are charged together, and the hours of a day. Changes
-- nothing.
--
-- Own   per limit: extra
-- Answers ALL_KNOWN, each limit's answer, the time (ms), then of each limit the hours that were noted, each by its number
--         and what was noted; or TRY_AGAIN and an answer
local rules = several({ sliding = sliding, calendar = calendar })
local keys = 0
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
  local answers, hour_now = standing(rules, parts), math.floor(now_ms / HOUR_MS)
  answers[#answers + 1] = now_ms
  for _, rule in ipairs(rules) do
    local hours, stored = {}, redis.call('HGETALL', rule.hours)
    for i = 1, #stored, 2 do
      local hour = tonumber(stored[i])
      if is_kept(hour, hour_now) then
        hours[#hours + 1] = hour
        hours[#hours + 1] = stored[i + 1]
      end
    end
    answers[#answers + 1] = hours
  end
  return answers
end, keys, #rules)
