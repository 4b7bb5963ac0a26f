-- ack: the side effects of a claimed session have run: it is deleted, once.
--
-- Keys  the session
-- Own   its id, generation
-- Answers  an empty list; or why not
return finish(each(function(k, at)
  local s, why = read(ARGV[at + 1], KEYS[k], true)
  if not s then return why end
  -- Nobody can tell whose claim it is; others that come along are not to fail for it.
  if s.is_unreadable then return UNCLAIMED end
  settle(s)
  if tonumber(ARGV[at + 2]) ~= s.generation then return STALE end
  if s.claimed == 0 then return UNCLAIMED end
  erase(s)
  return {}
end, 1, 2, SHARED_KEYS))
