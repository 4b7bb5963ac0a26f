-- release_all: gives back what was charged under several limits by an id. Sent twice it gives back once.
--
-- ARGV  behind the limits: how long the id is remembered from now on (ms)
-- KEYS  of an item for each limit, after the limit's: records and their index
-- Own   id, which limits are charged together; per limit: extra
-- Answers ALL_RELEASED, 1 if this call has given it back
--         ALL_UNKNOWN: no limit knows of the id
--         ALL_OTHER, number of the limit: the id was used for something else
--         or the number of one that holds, or TRY_AGAIN, and its answer alone
local rules, described = several({ sliding = sliding, calendar = calendar })
local remembered_ms, keys = tonumber(ARGV[described + 1]), 0
for _, rule in ipairs(rules) do keys = keys + rule.stride + 2 end

return each(function(k, at)
  local id, together = ARGV[at + 1], tonumber(ARGV[at + 2])
  local charges, is_known, k_of = {}, false, k
  for i, rule in ipairs(rules) do
    local extra, ids, index = tonumber(ARGV[at + 2 + i]), KEYS[k_of + rule.stride], KEYS[k_of + rule.stride + 1]
    local other = otherwise(rule, k_of, extra)
    if other then return { other[1] == HELD and i or TRY_AGAIN, other } end
    local r = load(ids, id)
    if r then
      local is_charge = r.state == CHARGED or r.state == RELEASED
      if not is_charge or r.deadline ~= together then return { ALL_OTHER, i } end
      is_known = true
      if r.state == CHARGED then
        if rule.reaches and not rule.reaches(k_of, r.at, extra) then return { TRY_AGAIN, { ELSEWHERE, now_ms } } end
        -- Before anything is given back: it may be of another type.
        redis.call('ZCARD', index)
        rule.judge(k_of, 0, rule.a, rule.b, extra)
        charges[#charges + 1] = { rule = rule, k = k_of, extra = extra, ids = ids, index = index, r = r }
      end
    end
    k_of = k_of + rule.stride + 2
  end
  if not is_known then return { ALL_UNKNOWN } end
  for _, charge in ipairs(charges) do
    local r = charge.r
    charge.rule.give_back(charge.k, r.at, r.cost, charge.extra)
    r.state, r.forget = RELEASED, now_ms + remembered_ms
    save(charge.ids, charge.index, id, r)
  end
  return { ALL_RELEASED, #charges > 0 and 1 or 0 }
end, keys, 2 + #rules)
