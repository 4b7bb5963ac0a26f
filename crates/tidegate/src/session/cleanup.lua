-- cleanup: claim and ack in one step, for those without side effects.
--
-- Keys  none
-- Own   how many at most; 1 if also what was claimed and not acknowledged in time; until when
--       the call is good
-- Answers  silent sessions, deleted, put aside, entries without a session, entries that
--          are no ids, for how long the first had been due, 1 if more are due, until when a
--          hold runs, the store's time, why it took no stamp, some of the entries that are no
--          sessions; or the store's time, if that is too late
return finish(plain_each(function(_, at)
  if is_over(ARGV[at + 3]) then return clock_ms end
  start_counting()
  local lag_ms, gone, keys, is_claiming = lag(), { {}, {} }, {}, ARGV[at + 2] == '1'
  if is_held then return answer(lag_ms, false) end
  local limit = tonumber(ARGV[at + 1])
  take(limit, limit, is_claiming, function(s)
    if is_mapped(s) then keys[#keys + 1] = BROADCASTER .. s.broadcaster end
    keys[#keys + 1] = s.key
    if s.is_counted then keys[#keys + 1] = REF_COUNT .. s.id end
    local from = gone[s.claimed > 0 and 2 or 1]
    from[#from + 1] = s.id
    deleted = deleted + 1
  end)
  -- Not more than a stack holds at a time.
  for i = 1, #keys, 1000 do call('UNLINK', unpack(keys, i, math.min(i + 999, #keys))) end
  if gone[1][1] then call('ZREM', DISCONNECTED, unpack(gone[1])) end
  if gone[2][1] then call('ZREM', CLAIMED, unpack(gone[2])) end
  return answer(lag_ms, is_more(is_claiming))
end, 1, 3, SHARED_KEYS))
