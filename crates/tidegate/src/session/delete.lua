-- delete: the end of a session that nobody holds and nobody is reaping, and of one that
-- cannot be read.
--
-- Keys  the session
-- Own   its id
-- Answers  an empty list; or why not
return finish(each(function(k, at)
  local s, why = read(ARGV[at + 1], KEYS[k], true)
  if not s then
    -- Its key has ended before it, or is somebody else's by now.
    unindex(ARGV[at + 1])
    return why
  end
  if s.is_unreadable then
    hand(s)
  else
    settle(s)
    if s.disconnected == 0 then return IS_ACTIVE end
    if s.claimed > 0 then return REAPING end
  end
  erase(s)
  return {}
end, 1, 1, SHARED_KEYS))
