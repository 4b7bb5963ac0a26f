-- update: a new value.
--
-- Keys  the session
-- Own   its id, value, generation (empty: any)
-- Answers  a list with its generation; or why not
return finish(each(function(k, at)
  local s, refusal = living(ARGV[at + 1], KEYS[k], ARGV[at + 3])
  if not s then return refusal end
  local field, at_s = written(s)
  save(s, 'value', ARGV[at + 2], field, at_s)
  return { s.generation }
end, 1, 3, SHARED_KEYS))
