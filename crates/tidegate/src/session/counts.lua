-- counts: how many sessions there are, of each kind.
--
-- Keys  none
-- Answers  active, disconnected, those of them whose grace is over, claimed, dead, and
--          for how long the first orphan has been due
return finish(each(function()
  local due_ms = now_ms - grace_ms
  local silent = call('ZCOUNT', ACTIVE, '-inf', int(now_ms))
  local orphans = call('ZCOUNT', DISCONNECTED, '-inf', due_ms / 1000) + call('ZCOUNT', ACTIVE, '-inf', int(due_ms))
  return { call('ZCARD', ACTIVE) - silent, call('ZCARD', DISCONNECTED) + silent, orphans, call('ZCARD', CLAIMED),
    call('ZCARD', DEAD), lag() }
end, 1, 0, COMMON))
