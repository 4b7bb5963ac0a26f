-- release_all: gives back what was charged under several limits by an id. Sent twice it gives back once. An id of which
-- nothing is known is noted as released, where there is room: a charge by it that is still on its way shall not be made.
--
-- ARGV  behind the limits: how long the id is remembered from now on (ms)
-- KEYS  of an item for each limit, after the limit's: records and their index
-- Own   id, which limits are charged together; per limit: extra, how many ids are remembered
-- Answers ALL_RELEASED, 1 if this call has given it back
--         ALL_UNKNOWN: no limit knows of a charge by the id
--         ALL_OTHER, number of the limit: the id was used for something else
--         or the number of one that holds, or TRY_AGAIN, and its answer alone
local rules, described = several({ sliding = sliding, calendar = calendar })
local remembered_ms, keys = tonumber(ARGV[described + 1]), 0
for _, rule in ipairs(rules) do keys = keys + rule.stride + 2 end

return each(function(k, at)
  local id, together = ARGV[at + 1], tonumber(ARGV[at + 2])
  local charges, voids, is_known, k_of = {}, {}, false, k
  for i, rule in ipairs(rules) do
    local extra, max = tonumber(ARGV[at + 1 + 2 * i]), tonumber(ARGV[at + 2 + 2 * i])
    local ids, index = KEYS[k_of + rule.stride], KEYS[k_of + rule.stride + 1]
    local other = otherwise(rule, k_of, extra)
    if other then return { other[1] == HELD and i or TRY_AGAIN, other } end
    local r = load(ids, id)
    if r then
      local is_charge = r.state == CHARGED or r.state == RELEASED
      if not is_charge or r.deadline ~= together then return { ALL_OTHER, i } end
      is_known = is_known or r.cost > 0
      if r.state == CHARGED then
        if rule.reaches and not rule.reaches(k_of, r.at, extra) then return { TRY_AGAIN, { ELSEWHERE, now_ms } } end
        -- Before anything is given back: it may be of another type.
        redis.call('ZCARD', index)
        rule.judge(k_of, 0, rule.a, rule.b, extra)
        charges[#charges + 1] = { rule = rule, k = k_of, extra = extra, ids = ids, index = index, r = r }
      end
    end
    local due = index_due(index, now_ms, LOOKED_AT)
    -- Nothing else is forgotten for it.
    if r or redis.call('ZCARD', index) - #due < max then voids[#voids + 1] = { ids = ids, index = index, due = due } end
    k_of = k_of + rule.stride + 2
  end
  if not is_known then
    for _, void in ipairs(voids) do
      drop(void.ids, void.index, void.due)
      save(void.ids, void.index, id, { cost = 0, state = RELEASED, deadline = together, forget = now_ms + remembered_ms,
        at = 0, spans = 0, gives_back = 0 })
    end
    return { ALL_UNKNOWN }
  end
  for _, charge in ipairs(charges) do
    local r = charge.r
    charge.rule.give_back(charge.k, r.at, r.cost, charge.extra)
    r.state, r.forget = RELEASED, now_ms + remembered_ms
    save(charge.ids, charge.index, id, r)
  end
  return { ALL_RELEASED, #charges > 0 and 1 or 0 }
end, keys, 2 + 2 * #rules)
