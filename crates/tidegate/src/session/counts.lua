-- counts: how many sessions there are, of each kind.
--
-- Keys  none
-- Own   1 to write nothing
-- Answers  active, disconnected, those of them whose grace is over, claimed, dead, and
--          for how long the first orphan has been due; then until when a hold runs (0: none
--          does), the store's time, and why it took no stamp (empty: it did)
local is_changing = false
local replies = plain_each(function(_, at)
  if ARGV[at + 1] ~= '1' then
    is_changing = true
    stamp()
  end
  local due_ms = now_ms - grace_ms
  local silent = call('ZCOUNT', ACTIVE, '-inf', int(ended_by(now_ms)))
  local orphans = call('ZCOUNT', DISCONNECTED, '-inf', due_ms / 1000)
    + call('ZCOUNT', ACTIVE, '-inf', int(ended_by(due_ms)))
  return { call('ZCARD', ACTIVE) - silent, call('ZCARD', DISCONNECTED) + silent, orphans, call('ZCARD', CLAIMED),
    call('ZCARD', DEAD), lag(), is_held and hold_ms or 0, clock_ms, refusal }
end, 1, 1, SHARED_KEYS)
return is_changing and finish(replies) or replies
