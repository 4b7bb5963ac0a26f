-- renew: a claim holds for longer: its side effects are not done yet.
--
-- Keys  the session
-- Own   its id, generation, which attempt the claim was
-- Answers  a list with until when it is claimed; or why not
return finish(each(function(k, at)
  local s, why = load(ARGV[at + 1], KEYS[k])
  if not s then return why end
  if tonumber(ARGV[at + 2]) ~= s.generation then return STALE end
  -- Somebody else has claimed it since, or nobody has it.
  if s.claimed <= 0 or tonumber(ARGV[at + 3]) ~= s.attempts then return UNCLAIMED end
  s.claimed = math.max(s.claimed, now_ms + claim_ms)
  put(CLAIMED, s.claimed, s.id)
  save(s)
  return { s.claimed }
end, 1, 3, SHARED_KEYS))
