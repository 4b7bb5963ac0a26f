-- delete: the end of a session that nobody holds and nobody is reaping.
--
-- Keys  the session
-- Own   its id
-- Answers  an empty list; or why not
return finish(each(function(k, at)
  local s = load(ARGV[at + 1], KEYS[k])
  if not s then
    -- Its key has ended before it.
    call('ZREM', DEAD, ARGV[at + 1])
    return GONE
  end
  if s.disconnected == 0 then return IS_ACTIVE end
  if s.claimed > 0 then return REAPING end
  erase(s)
  return {}
end, 1, 1, COMMON))
