-- resume: a holder of a session that may have been left: if so, it begins another life.
--
-- Keys  the session
-- Own   its id, holder, generation (empty: any)
-- Answers  its generation and until when it is held; or why not
return finish(each(function(k, at)
  local s, refusal = living(ARGV[at + 1], KEYS[k], ARGV[at + 3])
  if not s then return refusal end
  if is_crowded(s, ARGV[at + 2]) then return CROWDED end
  return hold(s, ARGV[at + 2])
end, 1, 3, SHARED_KEYS))
