-- retry: a session that was put aside can be claimed again, as if never before.
--
-- Keys  the session
-- Own   its id
-- Answers  an empty list; or why not
return finish(each(function(k, at)
  local s, why = load(ARGV[at + 1], KEYS[k])
  if not s then
    -- Its key has ended before it.
    call('ZREM', DEAD, ARGV[at + 1])
    return why
  end
  if s.claimed >= 0 then return s.claimed > 0 and REAPING or UNCLAIMED end
  s.attempts, s.claimed = 0, now_ms
  put(CLAIMED, s.claimed, s.id)
  call('ZREM', DEAD, s.id)
  save(s)
  return {}
end, 1, 1, SHARED_KEYS))
